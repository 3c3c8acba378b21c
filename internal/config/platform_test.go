package config

import "testing"

func TestParseQuota(t *testing.T) {
	for line, want := range map[string]float64{
		"max 100000\n": 0, "50000 100000\n": 0.5, "200000 100000": 2, "": 0, "100000": 0, "1 0": 0,
	} {
		if got := parseQuota(line); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}

func TestPlatformTellsCloudRun(t *testing.T) {
	t.Setenv("K_SERVICE", "bridge")
	t.Setenv("CLOUD_RUN_WORKER_POOL", "")
	if p := ReadPlatform(); !p.CloudRun || p.WorkerPool {
		t.Errorf("%+v, want a Cloud Run service", p)
	}
}
