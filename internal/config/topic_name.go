package config

import (
	"errors"
	"regexp"
	"strings"
)

var (
	kafkaName   = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)
	pubsubChars = regexp.MustCompile(`^[a-zA-Z0-9._~+%-]+$`)
	projectID   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._:-]*$`)
)

// checkKafkaName applies Kafka's own rule.
func checkKafkaName(s string) error {
	if !kafkaName.MatchString(s) || s == "." || s == ".." {
		return errors.New("not a Kafka topic name: 1 to 249 of letters, digits, '.', '_' and '-'")
	}
	return nil
}

// checkPubSubName takes a topic id or projects/P/topics/T and applies Pub/Sub's rule.
func checkPubSubName(s string) error {
	id := s
	if rest, ok := strings.CutPrefix(s, "projects/"); ok {
		project, topic, _ := strings.Cut(rest, "/topics/")
		if !projectID.MatchString(project) || topic == "" {
			return errors.New("a full name is projects/PROJECT/topics/TOPIC")
		}
		id = topic
	}
	switch {
	case len(id) < 3 || len(id) > 255:
		return errors.New("a Pub/Sub topic id has 3 to 255 characters")
	case id[0]|0x20 < 'a' || id[0]|0x20 > 'z':
		return errors.New("a Pub/Sub topic id starts with a letter")
	case strings.HasPrefix(id, "goog"):
		return errors.New("a Pub/Sub topic id does not start with goog")
	case !pubsubChars.MatchString(id):
		return errors.New("a Pub/Sub topic id has letters, digits and -_.~+% only")
	}
	return nil
}

// fullName completes a topic id with the project; full names and "" stay.
func fullName(project, name string) string {
	if name == "" || isFullName(name) {
		return name
	}
	return "projects/" + project + "/topics/" + name
}

func isFullName(name string) bool { return strings.HasPrefix(name, "projects/") }
