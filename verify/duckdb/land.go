package duckdb

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mskbridge/mskbridge/internal/message"
	"github.com/mskbridge/mskbridge/internal/warehouse"
)

// Delivery is a message as a subscription delivers it.
type Delivery struct {
	MessageID   string
	PublishTime time.Time
	Data        []byte
	Attributes  map[string]string
	OrderingKey string
}

// Decode reads one message field of a PublishRequest, as internal/message
// writes it.
func Decode(field []byte) (Delivery, error) {
	d := Delivery{Attributes: make(map[string]string)}
	_, _, n := protowire.ConsumeTag(field)
	body, m := protowire.ConsumeBytes(field[max(n, 0):])
	if n < 0 || m < 0 {
		return d, protowire.ParseError(min(n, m))
	}
	for len(body) > 0 {
		number, value, err := consume(&body)
		if err != nil {
			return d, err
		}
		switch number {
		case 1:
			d.Data = value
		case 2:
			var pair [3]string
			for len(value) > 0 {
				k, v, err := consume(&value)
				if err != nil {
					return d, err
				}
				pair[k] = string(v)
			}
			d.Attributes[pair[1]] = pair[2]
		case 5:
			d.OrderingKey = string(value)
		}
	}
	return d, nil
}

func consume(b *[]byte) (protowire.Number, []byte, error) {
	number, _, n := protowire.ConsumeTag(*b)
	if n < 0 {
		return 0, nil, protowire.ParseError(n)
	}
	value, m := protowire.ConsumeBytes((*b)[n:])
	if m < 0 {
		return 0, nil, protowire.ParseError(m)
	}
	*b = (*b)[n+m:]
	return number, value, nil
}

// Land writes deliveries to the raw table as a BigQuery subscription does: with
// metadata, and by the table's schema when the data is an envelope.
func (w *Warehouse) Land(ctx context.Context, deliveries ...Delivery) error {
	tx, err := w.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after the commit there is nothing to do
	for _, d := range deliveries {
		columns := map[string]cell{
			"subscription_name": {"?", "projects/p/subscriptions/s"},
			"message_id":        {"?", d.MessageID},
			"publish_time":      {"CAST(? AS TIMESTAMP)", d.PublishTime.UTC().Format("2006-01-02 15:04:05.999999")},
		}
		attributes := maps.Clone(d.Attributes)
		if d.OrderingKey != "" {
			attributes["ordering_key"] = d.OrderingKey
		}
		text, err := json.Marshal(attributes)
		if err != nil {
			return err
		}
		columns["attributes"] = cell{"CAST(? AS JSON)", string(text)}
		if w.format == warehouse.Raw {
			columns["data"] = cell{"?", append([]byte{}, d.Data...)}
		} else if err := members(columns, d.Data, w.format); err != nil {
			return err
		}
		names, marks, values := "", "", []any{}
		for name, c := range columns {
			names, marks, values = names+", "+name, marks+", "+c.mark, append(values, c.value)
		}
		insert := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", w.Table("raw"), names[2:], marks[2:])
		if _, err := tx.ExecContext(ctx, insert, values...); err != nil {
			return fmt.Errorf("landing %s: %w", d.MessageID, err)
		}
	}
	return tx.Commit()
}

// cell is a value and how DuckDB takes it.
type cell struct {
	mark  string
	value any
}

// members adds the members of an envelope, each to the column of its name.
func members(columns map[string]cell, envelope []byte, f warehouse.Format) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(envelope, &object); err != nil {
		return fmt.Errorf("reading an envelope: %w", err)
	}
	for name, raw := range object {
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return err
		}
		mark := "?"
		switch name {
		case message.AttrKey:
			mark = "from_base64(?)"
		case message.ColTimestamp:
			mark = "CAST(CAST(? AS VARCHAR) AS TIMESTAMP)"
		case message.ColDate:
			mark = "CAST(? AS DATE)"
		case message.AttrPartition, message.AttrOffset, message.ColLeaderEpoch, message.AttrGap:
			mark, value = "CAST(? AS BIGINT)", string(raw)
		case message.ColHeaders:
			mark, value = headersMark, string(raw)
		case message.ColValue:
			switch {
			case f == warehouse.EnvelopeBytes:
				mark = "from_base64(?)"
			case value != nil: // a string that holds JSON
				mark = "CAST(CAST(? AS VARCHAR) AS JSON)"
			}
		}
		columns[name] = cell{mark, value}
	}
	return nil
}

// headersMark reads the array of headers as the table's schema has it.
const headersMark = `list_transform(
	from_json(CAST(? AS JSON), '[{"name":"VARCHAR","name_base64":"VARCHAR","value":"VARCHAR","base64":"VARCHAR"}]'),
	lambda x: struct_pack(name := x.name, name_base64 := from_base64(x.name_base64), value := x.value, base64 := from_base64(x.base64)))`
