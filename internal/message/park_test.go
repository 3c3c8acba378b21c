package message_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"

	"github.com/mskbridge/mskbridge/internal/message"
)

// park encodes rec and parks it.
func park(t *testing.T, rec *message.Record, r *message.Refusal) ([]byte, *pubsubpb.PubsubMessage) {
	t.Helper()
	e, p := route{ordered: true}.encoder()
	e.Measure(p, rec)
	field := e.AppendTo(nil)
	before := sha256.Sum256(field)
	parked := message.Park(field, r, testDestination)
	if sha256.Sum256(field) != before {
		t.Error("Park wrote into the field")
	}
	m := decode(t, parked)[0]
	checkLegal(t, m)
	checkHeaders(t, m.Attributes, rec.Headers)
	return parked, m
}

func TestParkAddsToTheOriginal(t *testing.T) {
	for _, test := range records() {
		t.Run(test.name, func(t *testing.T) {
			_, m := park(t, &test.Record, &message.Refusal{Reason: message.Undecodable, Detail: "not JSON"})
			sum := sha256.Sum256(test.Value)
			want := route{}.reference(&test.Record)
			if len(want.Attributes) > 95 {
				return // TestParkMakesRoom
			}
			maps.Copy(want.Attributes, map[string]string{
				message.AttrParkedReason:      "undecodable",
				message.AttrParkedDetail:      "not JSON",
				message.AttrParkedDestination: testDestination,
				message.AttrParkedSize:        strconv.Itoa(len(test.Value)),
				message.AttrParkedSHA256:      hex.EncodeToString(sum[:]),
			})
			if !proto.Equal(m, want) {
				t.Errorf("got %v\nwant %v", m, want)
			}
		})
	}
}

// TestParkMakesRoom: headers give way to what Park adds, and are counted.
func TestParkMakesRoom(t *testing.T) {
	for _, test := range []struct {
		headers int
		own     int
		dropped string
	}{ // 4 attributes beside the headers, 5 more for parking
		{90, 90, ""},
		{91, 91, ""},
		{92, 90, "2"},
		{95, 90, "5"},
		{96, 89, "4"}, // 3 are in the array
	} {
		t.Run(strconv.Itoa(test.headers), func(t *testing.T) {
			_, m := park(t, &message.Record{TimestampMs: -1, Value: []byte("v"), Headers: numbered(test.headers)}, &message.Refusal{Reason: message.Refused})
			own := 0
			for name := range m.Attributes {
				if strings.HasPrefix(name, message.AttrHeaderPrefix) {
					own++
				}
			}
			if own != test.own || m.Attributes[message.AttrHeadersDropped] != test.dropped {
				t.Errorf("%d headers, %q dropped of %d; want %d, %q", own, m.Attributes[message.AttrHeadersDropped], test.headers, test.own, test.dropped)
			}
		})
	}
	t.Run("adds to the count", func(t *testing.T) {
		headers := append(numbered(300), header("big", strings.Repeat("x", 2000))...)
		_, m := park(t, &message.Record{Value: []byte("v"), Headers: headers}, &message.Refusal{Reason: message.Refused})
		if len(m.Attributes) != message.MaxAttributes {
			t.Errorf("%d attributes", len(m.Attributes))
		}
	})
}

// TestParkData: the data goes along where the parked message fits a request to
// a dead-letter topic with the longest possible name.
func TestParkData(t *testing.T) {
	const limit = message.MaxRequest - 512
	refusal := &message.Refusal{Reason: message.TooLarge, Detail: "too large"}
	value := bytes.Repeat([]byte("payload!"), 11_000_000/8)
	parked, _ := park(t, &message.Record{Value: value[:limit-2000]}, refusal)
	fits := limit - (len(parked) - (limit - 2000)) // mskbridge_size has as many digits
	for _, test := range []struct {
		size int
		kept bool
	}{{fits - 1, true}, {fits, true}, {fits + 1, false}, {message.MaxRequest + 1, false}, {len(value), false}} {
		t.Run(strconv.Itoa(test.size), func(t *testing.T) {
			parked, m := park(t, &message.Record{Value: value[:test.size]}, refusal)
			sum := sha256.Sum256(value[:test.size])
			if m.Attributes[message.AttrParkedSize] != strconv.Itoa(test.size) || m.Attributes[message.AttrParkedSHA256] != hex.EncodeToString(sum[:]) {
				t.Errorf("size %s, sha256 %s", m.Attributes[message.AttrParkedSize], m.Attributes[message.AttrParkedSHA256])
			}
			if want := value[:test.size]; test.kept != bytes.Equal(m.Data, want) || !test.kept && len(m.Data) > 0 {
				t.Errorf("%d bytes of data, want all: %v", len(m.Data), test.kept)
			}
			if len(parked) > limit {
				t.Errorf("parked message of %d bytes", len(parked))
			}
		})
	}
}

// TestParkIllegalField: a field that breaks limits comes out legal.
func TestParkIllegalField(t *testing.T) {
	attributes := map[string]string{
		"idempotency_key":           "v1/msk/orders/-/0/0/1",
		"":                          "no name",
		"kafka_key":                 strings.Repeat("k", 1025),
		strings.Repeat("n", 257):    "long name",
		"goog-reserved":             "x",
		"mskbridge_reason":          "forged",
		"kafka_header_long":         strings.Repeat("x", 1025),
		"kafka_header_fine":         "y",
		"kafka_headers_dropped":     "3",
		"kafka_header_not-text\x00": "z",
	}
	for i := range 200 {
		attributes[fmt.Sprint("x", i)] = "more than there is room for"
	}
	field := marshal(t, &pubsubpb.PubsubMessage{Data: []byte("d"), Attributes: attributes, OrderingKey: "k"})
	e, _ := route{}.encoder()
	m := decode(t, message.Park(field[len(e.Head()):], &message.Refusal{Reason: message.Refused, Detail: strings.Repeat("é", 1000) + "\xff\x00"}, ""))[0]
	checkLegal(t, m)
	for name, want := range map[string]string{
		"idempotency_key":       "v1/msk/orders/-/0/0/1",
		"mskbridge_reason":      "refused",
		"mskbridge_detail":      strings.Repeat("é", 512),
		"kafka_headers_dropped": "6", // the fine one gave way too
	} {
		if m.Attributes[name] != want {
			t.Errorf("%s = %q, want %q", name, m.Attributes[name], want)
		}
	}
	for _, garbage := range []string{"", "\x12", "\x12\x05", "\x12\x02\x12\x7f", "\x0a\x01x", "\x12\x03\x0a\xff\xff", strings.Repeat("\xff", 40)} {
		m := decode(t, message.Park([]byte(garbage), &message.Refusal{Reason: message.Refused}, "d"))[0]
		checkLegal(t, m)
		if len(m.Attributes) != 5 {
			t.Errorf("%q: %v", garbage, m)
		}
	}
}
