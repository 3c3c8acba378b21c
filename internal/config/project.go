package config

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/compute/metadata"

	"github.com/mskbridge/mskbridge/internal/fault"
)

// metadataTimeout bounds the question to the metadata server: where there is
// none, its address may answer nothing at all.
const metadataTimeout = 2 * time.Second

// NeedsProject reports whether some topic is not a full name and no project is
// known, so that ResolveProject has to ask.
func (c *Config) NeedsProject() bool {
	if c.Project != "" {
		return false
	}
	for _, r := range c.Routes {
		if !isFullName(r.Destination) || r.DeadLetter != "" && !isFullName(r.DeadLetter) {
			return true
		}
	}
	return false
}

// ResolveProject completes the names of topics with the project that fetch
// finds, in at most 2 s. It does nothing when NeedsProject is false. Call it
// before the Config is shared.
func (c *Config) ResolveProject(ctx context.Context, fetch func(context.Context) (string, error)) error {
	if !c.NeedsProject() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	project, err := fetch(ctx)
	if err == nil && !projectID.MatchString(project) {
		err = errors.New("the answer is not a project id")
	}
	if err != nil {
		return fault.Exit(fault.CodeUsage, fmt.Errorf("asking the metadata server for the project (set BRIDGE_PROJECT to avoid it): %w", err))
	}
	c.Project = project
	var p problems
	c.qualify(&p)
	return p.err()
}

// MetadataProject asks Google's metadata server for the project of this
// instance. It is the fetch of ResolveProject.
func MetadataProject(ctx context.Context) (string, error) {
	return metadata.ProjectIDWithContext(ctx)
}

// qualify completes the names of topics once the project is known and refuses
// dead-letter topics that are destinations. With an emulator there is no
// metadata server to ask later, so the project must be known by now.
func (c *Config) qualify(p *problems) {
	if c.NeedsProject() {
		if c.EmulatorHost != "" {
			p.add("BRIDGE_PROJECT is not set and a topic is not a full name; with PUBSUB_EMULATOR_HOST the metadata server is not asked")
			return
		}
	} else {
		for i := range c.Routes {
			r := &c.Routes[i]
			r.Destination = fullName(c.Project, r.Destination)
			r.DeadLetter = fullName(c.Project, r.DeadLetter)
		}
	}
	users := make(map[string]string, len(c.Routes))
	for _, r := range c.Routes {
		users[r.Destination] = r.Topic
	}
	for _, r := range c.Routes {
		if topic, ok := users[r.DeadLetter]; ok {
			p.add("%sdead_letter %s is the destination of route %s; parked records would be taken for good ones", r.place, r.DeadLetter, topic)
		}
	}
}
