package main

import (
	"fmt"
	"strings"

	"github.com/mskbridge/mskbridge/consumer"
	"github.com/mskbridge/mskbridge/internal/check"
	"github.com/mskbridge/mskbridge/internal/config"
	"github.com/mskbridge/mskbridge/internal/fault"
	"github.com/mskbridge/mskbridge/sink"
)

// pubsub adds what is about topics to publish to.
func (p *preflight) pubsub(in *consumer.Inspection, found *sink.Probed, err error) {
	if err != nil {
		p.Add(sectionPubSub, "client", check.Fail, oneLine(err),
			"run with a service account that may publish, or set GOOGLE_APPLICATION_CREDENTIALS")
		return
	}
	dead := map[string]bool{}
	for _, r := range p.cfg.Routes {
		dead[r.DeadLetter] = true
	}
	for _, t := range found.Topics {
		what := "topic " + p.short(t.Name)
		if dead[t.Name] {
			what = "dead-letter topic " + p.short(t.Name)
		}
		p.destination(what, t)
	}
	p.deadLetters()
	p.ordered(in)
}

// destination adds one topic.
func (p *preflight) destination(what string, t sink.ProbedTopic) {
	project, id := parts(t.Name)
	create := fmt.Sprintf("gcloud pubsub topics create %s --project=%s", id, project)
	grant := fmt.Sprintf("gcloud pubsub topics add-iam-policy-binding %s --project=%s --role=roles/pubsub.publisher --member=serviceAccount:SERVICE_ACCOUNT, the one the bridge runs as", id, project)
	switch {
	case t.Unanswered != "":
		p.Add(sectionPubSub, what, check.Fail, "no answer: "+t.Unanswered, p.reachPubSub())
	case t.Exists == fault.No:
		p.Add(sectionPubSub, what, check.Fail, "does not exist", create)
	case t.MayPublish == fault.No && t.Exists == fault.Unknown:
		p.Add(sectionPubSub, what, check.Fail, "may not be published to (pubsub.topics.publish), or does not exist", grant+"; if it does not exist: "+create)
	case t.MayPublish == fault.No:
		p.Add(sectionPubSub, what, check.Fail, "may not be published to (pubsub.topics.publish)", grant)
	case t.MayPublish == fault.Unknown && t.Exists == fault.Unknown:
		p.Add(sectionPubSub, what, check.Unclear, "not verifiable: neither the topic nor our permission may be asked for", grant)
	case t.MayPublish == fault.Unknown && p.cfg.EmulatorHost == "":
		p.Add(sectionPubSub, what, check.Unclear, "exists; whether it may be published to is not verifiable", grant)
	case t.Subscribed == fault.No:
		p.Add(sectionPubSub, what, check.Warn, "has no subscription: Pub/Sub keeps nothing of what is published",
			fmt.Sprintf("gcloud pubsub subscriptions create SUBSCRIPTION --topic=%s --project=%s", id, project))
	case t.MayPublish == fault.Unknown:
		p.Add(sectionPubSub, what, check.OK, "exists; an emulator knows no permissions", "")
	default:
		p.Add(sectionPubSub, what, check.OK, "exists, may be published to", "")
	}
}

func (p *preflight) reachPubSub() string {
	switch {
	case p.cfg.EmulatorHost != "":
		return "start the emulator that PUBSUB_EMULATOR_HOST names, or unset it"
	case p.cfg.PubSubEndpoint != "":
		return "check BRIDGE_PUBSUB_ENDPOINT, and that egress reaches it (NAT or Private Google Access)"
	default:
		return "let egress reach pubsub.googleapis.com:443 (NAT or Private Google Access), with a valid Google identity"
	}
}

// deadLetters adds the routes that a single record can stop.
func (p *preflight) deadLetters() {
	var without []string
	for _, r := range p.cfg.Routes {
		if r.DeadLetter == "" {
			without = append(without, r.Topic)
		}
	}
	if len(without) > 0 {
		p.Add(sectionPubSub, "dead letters", check.Warn,
			fmt.Sprintf("%s: no dead-letter topic, so a record that Pub/Sub can never take holds the route", list(without)), "set BRIDGE_DEAD_LETTER_TOPIC")
	}
}

// ordered adds what order costs.
func (p *preflight) ordered(in *consumer.Inspection) {
	partitions := map[string]int{}
	if in != nil {
		for _, t := range in.Topics {
			partitions[t.Topic] = len(t.Partitions)
		}
	}
	for _, r := range p.cfg.Routes {
		if r.Ordering == config.OrderingNone {
			continue
		}
		finding := "order by " + r.Ordering + ": at most 1 MB/s for each ordering key"
		if r.Ordering == config.OrderingKey {
			finding += ", and a request carries one key alone: as many requests as keys, each billed as at least 1 kB"
		}
		if n := partitions[r.Topic]; n > 0 && r.Ordering == config.OrderingPartition {
			finding += fmt.Sprintf(", %d MB/s for %d partitions", n, n)
		}
		if p.cfg.PubSubEndpoint == "" && p.cfg.EmulatorHost == "" {
			p.Add(sectionPubSub, "ordered route "+r.Topic, check.Warn, finding+"; order holds within one region, and the global endpoint may change it",
				"set BRIDGE_PUBSUB_ENDPOINT to a regional endpoint, for example us-central1-pubsub.googleapis.com:443")
			continue
		}
		p.Add(sectionPubSub, "ordered route "+r.Topic, check.OK, finding, "")
	}
}

// short leaves out the project where it is ours.
func (p *preflight) short(name string) string {
	return strings.TrimPrefix(name, "projects/"+p.cfg.Project+"/topics/")
}

// parts splits projects/P/topics/T.
func parts(name string) (project, id string) {
	s := strings.Split(name, "/")
	return s[1], s[3]
}

// list names a few and counts the rest.
func list(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
