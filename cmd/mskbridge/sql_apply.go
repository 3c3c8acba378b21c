package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/warehouse"
	"github.com/mskbridge/mskbridge/internal/warehouse/remote"
)

// step is one object and what makes it as it should be.
type step struct {
	found remote.Finding
	run   func(context.Context) error
}

// verb says what would be done, "" for nothing, and whether it can be.
func (s *step) verb() (verb string, can bool) {
	switch s.found.Status {
	case remote.Same:
		return "", true
	case remote.Absent:
		return "create", true
	case remote.Different:
		if s.found.Kind == "subscription" {
			return "update", s.found.Replaceable
		}
		return "replace", s.found.Replaceable
	default:
		return "", false
	}
}

// provision plans everything, then does it in order. Where something stands in
// the way that it may not change, it does nothing at all.
func (r *sqlRequest) provision(ctx context.Context, out io.Writer, cfg *config.Config, specs []warehouse.Spec, objects []warehouse.Object) error {
	subscriptions, err := r.subscriptions(cfg, specs, objects)
	if err != nil {
		return fault.Exit(fault.CodeUsage, err)
	}
	client, err := r.openDataset(ctx, cfg, specs[0])
	if err != nil {
		return err
	}
	defer client.Close()
	var pubsub *remote.Subscriptions
	if len(subscriptions) > 0 {
		if pubsub, err = remote.OpenSubscriptions(ctx, cfg.PubSubEndpoint, cfg.EmulatorHost); err != nil {
			return fault.Exit(fault.CodeUnknown, err)
		}
		defer pubsub.Close()
	}
	var plan []step
	for i, spec := range specs {
		steps, err := statementSteps(ctx, client, spec, objects)
		if err != nil {
			return err
		}
		plan = append(plan, steps...)
		if len(subscriptions) > 0 {
			step, err := subscriptionStep(ctx, pubsub, subscriptions[i])
			if err != nil {
				return err
			}
			plan = append(plan, step)
		}
	}
	if err := refuse(out, plan); err != nil {
		return err
	}
	if err := r.carryOut(ctx, out, plan); err != nil {
		return err
	}
	schedules(out, specs, objects)
	return nil
}

// statementSteps looks at each object of a route that is asked for.
func statementSteps(ctx context.Context, client *remote.Client, spec warehouse.Spec, objects []warehouse.Object) ([]step, error) {
	statements, err := warehouse.Render(spec, objects...)
	if err != nil {
		return nil, fault.Exit(fault.CodeUsage, err)
	}
	var steps []step
	for _, s := range statements {
		f, ok, err := look(ctx, client, s)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		steps = append(steps, step{f, func(ctx context.Context) error {
			_, _, err := client.Query(ctx, warehouse.Query{Name: s.Name, SQL: s.SQL}, 0)
			return err
		}})
	}
	return steps, nil
}

// subscriptionStep looks at a subscription. As look does, it asks nobody again
// who does not answer.
func subscriptionStep(ctx context.Context, pubsub *remote.Subscriptions, s remote.Subscription) (step, error) {
	asking, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	f := pubsub.Compare(asking, s)
	if f.Status == remote.Unclear && asking.Err() != nil {
		return step{}, fault.Exit(fault.CodeUnknown, errors.New(f.Problem))
	}
	return step{f, func(ctx context.Context) error { return pubsub.Apply(ctx, s) }}, nil
}

// subscriptions are those of the specs, in their order; none where the raw
// table, which they write, is not asked for.
func (r *sqlRequest) subscriptions(cfg *config.Config, specs []warehouse.Spec, objects []warehouse.Object) ([]remote.Subscription, error) {
	if len(objects) > 0 && !slices.Contains(objects, warehouse.ObjectRaw) {
		return nil, nil
	}
	if (cfg.BigQueryEmulator == "") != (cfg.EmulatorHost == "") {
		return nil, errors.New("one of BIGQUERY_EMULATOR_HOST and PUBSUB_EMULATOR_HOST is set: --apply would join an emulator with the real service")
	}
	users := map[string]int{}
	for _, route := range cfg.Routes {
		users[route.Destination]++
	}
	var out []remote.Subscription
	for _, spec := range specs {
		route := cfg.Routes[slices.IndexFunc(cfg.Routes, func(c config.Route) bool { return c.Topic == spec.Topic })]
		if route.DeadLetter == "" && !r.noDeadLetter {
			return nil, fmt.Errorf("route %s has no dead_letter: set it or BRIDGE_DEAD_LETTER_TOPIC, or pass --no-dead-letter", route.Topic)
		}
		project, _ := parts(route.Destination)
		s := remote.Subscription{
			Project: project, Topic: route.Destination, Table: spec.Project + "." + spec.Dataset + "." + warehouse.Stem(spec.Topic) + "_raw",
			KafkaTopic: route.Topic, TopicFilter: fmt.Sprintf("attributes.%s = %q", message.AttrTopic, route.Topic), Shared: users[route.Destination] > 1,
			TableSchema: spec.Format != warehouse.Raw, DeadLetter: route.DeadLetter, RetentionDays: spec.RetentionDays,
		}
		out = append(out, s)
	}
	return out, nil
}

// refuse fails when a step cannot be made, before any is.
func refuse(out io.Writer, plan []step) error {
	code := fault.CodeOK
	for _, s := range plan {
		if _, can := s.verb(); can {
			continue
		}
		printFindings(out, []remote.Finding{s.found})
		if s.found.Status == remote.Unclear {
			code = max(code, fault.CodeUnknown)
		} else {
			code = max(code, fault.CodeFailed)
		}
	}
	if code == fault.CodeOK {
		return nil
	}
	return fault.Exit(code, errors.New("what is printed stands in the way; nothing was changed"))
}

// carryOut makes one step after another, or says what it would do.
func (r *sqlRequest) carryOut(ctx context.Context, out io.Writer, plan []step) error {
	changed := 0
	for i, s := range plan {
		verb, _ := s.verb()
		what := fmt.Sprintf("[%d/%d] %s (%s)", i+1, len(plan), s.found.Object, s.found.Kind)
		switch {
		case verb == "":
			fmt.Fprintf(out, "%s: exists, same\n", what)
			printDetails(out, s.found)
			continue
		case r.dryRun:
			fmt.Fprintf(out, "%s: would %s\n", what, verb)
			printDetails(out, s.found)
			changed++
			continue
		}
		if err := limited(ctx, s.run); err != nil {
			fmt.Fprintf(out, "%s: failed\n", what)
			return fmt.Errorf("%d of %d steps are done; run the same command again to go on: %w", i, len(plan), err)
		}
		fmt.Fprintf(out, "%s: %s\n", what, strings.TrimSuffix(verb, "e")+"ed")
		printDetails(out, s.found)
		changed++
	}
	switch {
	case r.dryRun:
		fmt.Fprintf(out, "\nnothing was changed; %d of %d objects would be\n", changed, len(plan))
	case changed == 0:
		fmt.Fprintf(out, "\nnothing to do: all %d objects exist and are the same\n", len(plan))
	default:
		fmt.Fprintf(out, "\n%d of %d objects changed\n", changed, len(plan))
	}
	return nil
}

func limited(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	return run(ctx)
}

// schedules prints the commands that schedule the merges. A schedule needs an
// identity and a rhythm, which are for its owner to choose.
func schedules(out io.Writer, specs []warehouse.Spec, objects []warehouse.Object) {
	if len(objects) > 0 && !slices.Contains(objects, warehouse.ObjectMerge) {
		return
	}
	fmt.Fprintln(out, "\nNot made here: the schedule of each merge. Once per route, with a service account that may run jobs and edit the dataset:")
	for _, spec := range specs {
		call := fmt.Sprintf("CALL `%s.%s.%s_merge`(NULL);", spec.Project, spec.Dataset, warehouse.Stem(spec.Topic))
		fmt.Fprintf(out, "  bq --location=LOCATION mk --transfer_config --project_id=%s --data_source=scheduled_query --display_name='merge %s' --schedule='every 15 minutes' --service_account_name=SERVICE_ACCOUNT --params='{\"query\":\"%s\"}'\n",
			spec.Project, spec.Topic, call)
	}
}
