package main

import (
	"fmt"
	"time"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/sink"
)

const (
	// clockWarns is more than a clock that is kept by anybody is off.
	clockWarns = 30 * time.Second
	// clockBreaks is when AWS, which takes five minutes, may refuse signatures.
	clockBreaks = 4 * time.Minute
	// runtimeMemory is what binary, stacks and kernel buffers need beside buffers.
	runtimeMemory = 12 << 20
)

// process adds what is about the process itself. Both arguments may be nil.
func (p *preflight) process(in *consumer.Inspection, out *sink.Probed) {
	source := "BRIDGE_TOPICS"
	if p.cfg.RoutesFile != "" {
		source = p.cfg.RoutesFile
	}
	p.Add(sectionProcess, "configuration", check.OK, fmt.Sprintf("%d routes from %s, group %s, auth %s", len(p.cfg.Routes), source, p.cfg.Group, p.cfg.Auth), "")
	brokers := len(p.cfg.Brokers)
	if in != nil {
		advertised := 0
		for _, b := range in.Brokers {
			if b.Node >= 0 {
				advertised++
			}
		}
		brokers = max(brokers, advertised)
	}
	p.memory(brokers)
	p.cpu()
	p.clock(out)
}

// memory compares the budget, which was made for the brokers of the
// configuration, with the container and the brokers there are.
func (p *preflight) memory(brokers int) {
	s := p.cfg.Sizes
	// Each broker may have one fetch buffered and one under way.
	need := config.Bytes(s.Window + 2*int64(s.FetchMaxBytes)*int64(brokers) + runtimeMemory)
	limit, of := p.platform.Memory, "the container's"
	if limit == 0 {
		limit, of = p.cfg.Memory, "assumed"
	}
	finding := fmt.Sprintf("buffers for %d brokers need up to %v of %s %v", brokers, need, of, limit)
	more := "list all brokers in BRIDGE_BROKERS, so that fetches are sized for them, or raise the memory limit"
	switch {
	case need > limit:
		p.Add(sectionProcess, "memory", check.Fail, finding, more)
	case need > config.Bytes(s.GOMEMLIMIT):
		p.Add(sectionProcess, "memory", check.Warn, finding, more)
	case p.platform.Memory == 0:
		p.Add(sectionProcess, "memory", check.Unknown, finding+"; no container limit can be seen", "set BRIDGE_MEMORY to what the container may use")
	default:
		p.Add(sectionProcess, "memory", check.OK, finding, "")
	}
}

// cpu says what can be known about CPU. Whether it is there between requests
// cannot be seen from inside.
func (p *preflight) cpu() {
	quota := "no limit seen"
	if p.platform.CPUs > 0 {
		quota = fmt.Sprintf("%.2g CPUs", p.platform.CPUs)
	}
	switch {
	case p.platform.CloudRun:
		p.Add(sectionProcess, "cpu", check.Unknown, quota+"; whether it is always allocated is not verifiable from inside",
			`set the annotations run.googleapis.com/cpu-throttling: "false" and a minimum of one instance, as cloudrun.yaml does`)
	case p.platform.CPUs > 0 && p.platform.CPUs < 1:
		p.Add(sectionProcess, "cpu", check.Warn, quota+": the process stands still for most of each period under load", "give it one CPU")
	default:
		p.Add(sectionProcess, "cpu", check.OK, quota, "")
	}
}

// clock compares our clock with the date of Google's answers.
func (p *preflight) clock(out *sink.Probed) {
	if out == nil || !out.Clock {
		p.Add(sectionProcess, "clock", check.Unknown, "not verifiable: Pub/Sub gave its answers no date", "")
		return
	}
	ahead := out.Ahead.Round(time.Second)
	finding := fmt.Sprintf("%v ahead of Google's", ahead)
	if ahead < 0 {
		finding = fmt.Sprintf("%v behind Google's", -ahead)
	}
	signs := p.cfg.Auth == config.AuthIAM || p.cfg.Auth == config.AuthIAMOAuth
	switch off := max(ahead, -ahead); {
	case off > clockBreaks && signs:
		p.Add(sectionProcess, "clock", check.Fail, finding+": AWS refuses signatures that are five minutes off", "set the clock, by NTP for example")
	case off > clockWarns:
		p.Add(sectionProcess, "clock", check.Warn, finding, "set the clock, by NTP for example")
	default:
		p.Add(sectionProcess, "clock", check.OK, "within seconds of Google's", "")
	}
}
