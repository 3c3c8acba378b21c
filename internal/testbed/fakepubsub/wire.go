package fakepubsub

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Attribute is one attribute of a message.
type Attribute struct{ Name, Value []byte }

// Message is a view of one published message. Its slices are valid, and must
// not be written, until the call that got it returns.
type Message struct {
	Data        []byte
	Attributes  []Attribute // in the order of the wire
	OrderingKey []byte
	Size        int // bytes of the encoded message
}

// Attribute returns the value of the named attribute, nil when there is none.
func (m *Message) Attribute(name string) []byte {
	for i := range m.Attributes {
		if string(m.Attributes[i].Name) == name {
			return m.Attributes[i].Value
		}
	}
	return nil
}

// Key returns the idempotency key, nil when the message has none.
func (m *Message) Key() []byte { return m.Attribute("idempotency_key") }

// decoded is one PublishRequest, as slices of its own bytes. It is reused.
type decoded struct {
	topic      []byte
	messages   []Message
	attributes []Attribute // backs the messages' own
	size       int
}

// decode parses an encoded PublishRequest without copying.
func (d *decoded) decode(b []byte) error {
	d.topic, d.messages, d.attributes, d.size = nil, d.messages[:0], d.attributes[:0], len(b)
	return fields(b, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			d.topic = v
			return nil
		case 2:
			return d.message(v)
		default:
			return fmt.Errorf("unknown field %d of PublishRequest", n)
		}
	})
}

func (d *decoded) message(b []byte) error {
	m := Message{Size: len(b)}
	first := len(d.attributes)
	err := fields(b, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			m.Data = v
			return nil
		case 2:
			return d.attribute(v)
		case 5:
			m.OrderingKey = v
			return nil
		case 3, 4:
			return fmt.Errorf("field %d of PubsubMessage is the server's to set", n)
		default:
			return fmt.Errorf("unknown field %d of PubsubMessage", n)
		}
	})
	m.Attributes = d.attributes[first:len(d.attributes):len(d.attributes)]
	d.messages = append(d.messages, m)
	return err
}

func (d *decoded) attribute(b []byte) error {
	var a Attribute
	err := fields(b, func(n protowire.Number, v []byte) error {
		switch n {
		case 1:
			a.Name = v
		case 2:
			a.Value = v
		default:
			return fmt.Errorf("unknown field %d of an attribute", n)
		}
		return nil
	})
	d.attributes = append(d.attributes, a)
	return err
}

// fields calls f for each field of b. All fields of a publish request that a
// publisher may set are length-delimited.
func fields(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		n, typ, size := protowire.ConsumeTag(b)
		if size < 0 {
			return fmt.Errorf("parsing a tag: %w", protowire.ParseError(size))
		}
		if typ != protowire.BytesType {
			return fmt.Errorf("field %d has wire type %d", n, typ)
		}
		b = b[size:]
		v, size := protowire.ConsumeBytes(b)
		if size < 0 {
			return fmt.Errorf("parsing field %d: %w", n, protowire.ParseError(size))
		}
		b = b[size:]
		if err := f(n, v); err != nil {
			return err
		}
	}
	return nil
}
