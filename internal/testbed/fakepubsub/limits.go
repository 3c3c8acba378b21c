package fakepubsub

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Limits of the real service, stated here again and on purpose not shared with
// the code under test. Source: Pub/Sub quotas page, November 2026.
const (
	maxRequest        = 10_000_000 // bytes of one encoded request, and of one message
	maxMessages       = 1000
	maxAttributes     = 100
	maxAttributeName  = 256  // bytes
	maxAttributeValue = 1024 // bytes
	maxOrderingKey    = 1024 // bytes
)

// topicName is projects/{project}/topics/{topic}, the topic of 3 to 255
// characters beginning with a letter.
var topicName = regexp.MustCompile(`^projects/[a-z0-9][a-z0-9.:-]*/topics/[A-Za-z][A-Za-z0-9._~+%-]{2,254}$`)

// checkTopicName says why name cannot be a topic.
func checkTopicName(name string) error {
	if !topicName.MatchString(name) {
		return fmt.Errorf("topic %q is not projects/{project}/topics/{topic}", name)
	}
	if strings.Contains(name, "/topics/goog") {
		return fmt.Errorf("topic %q begins with the reserved prefix goog", name)
	}
	return nil
}

// check says which limit the request breaks, if any. The topic's name has been
// checked before.
func (d *decoded) check() error {
	switch {
	case d.size > maxRequest:
		return fmt.Errorf("request of %d bytes exceeds %d", d.size, maxRequest)
	case len(d.messages) == 0:
		return errors.New("request has no message")
	case len(d.messages) > maxMessages:
		return fmt.Errorf("request of %d messages exceeds %d", len(d.messages), maxMessages)
	}
	for i := range d.messages {
		m := &d.messages[i]
		if err := m.check(); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if !bytes.Equal(m.OrderingKey, d.messages[0].OrderingKey) {
			return fmt.Errorf("message %d: ordering key differs from that of message 0", i)
		}
	}
	return nil
}

func (m *Message) check() error {
	switch {
	case m.Size > maxRequest:
		return fmt.Errorf("%d bytes exceed %d", m.Size, maxRequest)
	case len(m.Data) == 0 && len(m.Attributes) == 0:
		return errors.New("neither data nor an attribute")
	case len(m.Attributes) > maxAttributes:
		return fmt.Errorf("%d attributes exceed %d", len(m.Attributes), maxAttributes)
	case len(m.OrderingKey) > maxOrderingKey:
		return fmt.Errorf("ordering key of %d bytes exceeds %d", len(m.OrderingKey), maxOrderingKey)
	case !utf8.Valid(m.OrderingKey):
		return errors.New("ordering key is not UTF-8")
	}
	for i := range m.Attributes {
		if err := m.Attributes[i].check(); err != nil {
			return fmt.Errorf("attribute %d: %w", i, err)
		}
		for j := range i {
			if bytes.Equal(m.Attributes[i].Name, m.Attributes[j].Name) {
				return fmt.Errorf("attribute %d: name of attribute %d again", i, j)
			}
		}
	}
	return nil
}

func (a *Attribute) check() error {
	switch {
	case len(a.Name) == 0:
		return errors.New("empty name")
	case len(a.Name) > maxAttributeName:
		return fmt.Errorf("name of %d bytes exceeds %d", len(a.Name), maxAttributeName)
	case len(a.Value) > maxAttributeValue:
		return fmt.Errorf("value of %d bytes exceeds %d", len(a.Value), maxAttributeValue)
	case !utf8.Valid(a.Name):
		return errors.New("name is not UTF-8")
	case !utf8.Valid(a.Value):
		return errors.New("value is not UTF-8")
	case bytes.HasPrefix(a.Name, []byte("goog")) && !bytes.HasPrefix(a.Name, []byte("googclient_")):
		return errors.New("name begins with the reserved prefix goog")
	}
	return nil
}
