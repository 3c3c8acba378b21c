package config

import (
	"os"
	"strconv"
	"strings"
)

// Platform is what the process can see of where it runs.
type Platform struct {
	// CloudRun is whether this is a Cloud Run service, WorkerPool a worker pool.
	CloudRun, WorkerPool bool
	// Memory is the container's limit, 0 when none is known.
	Memory Bytes
	// CPUs is the container's quota, 0 when none is known.
	CPUs float64
}

// cpuQuota holds microseconds of CPU and the period they are for, or "max".
const cpuQuota = "/sys/fs/cgroup/cpu.max"

// ReadPlatform reads the environment and the control group.
func ReadPlatform() Platform {
	p := Platform{CloudRun: os.Getenv("K_SERVICE") != "", WorkerPool: os.Getenv("CLOUD_RUN_WORKER_POOL") != "", Memory: containerLimit()}
	if text, err := os.ReadFile(cpuQuota); err == nil {
		p.CPUs = parseQuota(string(text))
	}
	return p
}

// parseQuota returns how many CPUs a line of cpu.max grants, 0 for no limit.
func parseQuota(line string) float64 {
	quota, period, _ := strings.Cut(strings.TrimSpace(line), " ")
	of, err := strconv.ParseFloat(period, 64)
	n, nErr := strconv.ParseFloat(quota, 64) // "max" is no number
	if err != nil || nErr != nil || of <= 0 {
		return 0
	}
	return n / of
}
