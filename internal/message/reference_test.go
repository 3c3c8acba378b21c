package message_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/protobuf/proto"

	"github.com/mskbridge/mskbridge/internal/message"
)

// route is the input of the reference: what an Encoder and a Partition know.
type route struct {
	ordered   bool
	byKey     bool
	allow     []string
	deny      []string
	topicID   [16]byte
	partition int32
}

const (
	testCluster     = "msk"
	testTopic       = "orders.v1"
	testDestination = "projects/shop-1/topics/orders"
)

func (r route) encoder() (*message.Encoder, *message.Partition) {
	e := message.NewEncoder(testCluster, testTopic, testDestination, r.ordered)
	if r.byKey {
		e.OrderByKey()
	}
	e.Filter(message.NewHeaderFilter(r.allow, r.deny))
	return e, e.Partition(r.topicID, r.partition)
}

func (r route) id(rec *message.Record) message.ID {
	return message.ID{
		Cluster: testCluster, Topic: testTopic, TopicID: r.topicID,
		Partition: r.partition, LeaderEpoch: rec.LeaderEpoch, Offset: rec.Offset,
	}
}

// reference is the mapping written the slow and obvious way.
func (r route) reference(rec *message.Record) *pubsubpb.PubsubMessage {
	attributes := map[string]string{
		"idempotency_key": r.id(rec).String(),
		"kafka_topic":     testTopic,
		"kafka_partition": fmt.Sprint(r.partition),
		"kafka_offset":    fmt.Sprint(rec.Offset),
	}
	if rec.TimestampMs != -1 {
		attributes["kafka_timestamp_ms"] = fmt.Sprint(rec.TimestampMs)
	}
	if rec.Key != nil {
		attributes["kafka_key"] = string(rec.Key)
		if encoded := base64.StdEncoding.EncodeToString(rec.Key); len(rec.Key) > 1024 || !text(string(rec.Key)) {
			attributes["kafka_key"], attributes["kafka_key_encoding"] = encoded, "base64"
			if len(encoded) > 1024 {
				sum := sha256.Sum256(rec.Key)
				attributes["kafka_key"], attributes["kafka_key_encoding"] = hex.EncodeToString(sum[:]), "sha256"
			}
		}
	}
	if rec.Value == nil {
		attributes["kafka_tombstone"] = "true"
	}
	referenceHeaders(attributes, r.kept(rec.Headers))
	if rec.Gap > 0 {
		attributes["kafka_offset_gap"] = fmt.Sprint(rec.Gap)
	}
	m := &pubsubpb.PubsubMessage{Data: rec.Value, Attributes: attributes}
	if r.ordered {
		m.OrderingKey = fmt.Sprintf("%s/%d", testTopic, r.partition)
	}
	if r.byKey {
		m.OrderingKey = attributes["kafka_key"]
	}
	return m
}

// kept are the headers that the route's patterns let through.
func (r route) kept(headers []message.Header) []message.Header {
	match := func(patterns []string, name string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			expression := "(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, ".*") + "$"
			return regexp.MustCompile(expression).MatchString(name)
		})
	}
	return slices.DeleteFunc(slices.Clone(headers), func(h message.Header) bool {
		return len(r.allow) > 0 && !match(r.allow, h.Name) || match(r.deny, h.Name)
	})
}

func text(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// referenceHeaders adds the attributes that the headers lead to.
func referenceHeaders(attributes map[string]string, headers []message.Header) {
	last := make(map[string]int)
	for i, h := range headers {
		last[h.Name] = i
	}
	room := 100 - 1 - len(attributes) // one is kept for the gap
	var own []int
	for i, h := range headers {
		name := "kafka_header_" + h.Name
		if last[h.Name] != i || h.Name == "" || len(name) > 256 || !text(name) || h.Value == nil || len(h.Value) > 1024 || !text(string(h.Value)) {
			continue
		}
		own = append(own, i)
		if h.Name == "traceparent" && traceparent(string(h.Value)) {
			attributes["googclient_traceparent"] = string(h.Value)
			room--
		}
	}
	left := len(own) < len(headers) || len(own) > room
	if left && len(own) > room-2 {
		own = own[:room-2]
	}
	isOwn := make(map[int]bool)
	for _, i := range own {
		attributes["kafka_header_"+headers[i].Name] = string(headers[i].Value)
		isOwn[i] = true
	}
	if !left {
		return
	}
	array, dropped := "[", 0
	for i, h := range headers {
		if isOwn[i] {
			continue
		}
		entry := jsonEntry(h)
		if array != "[" {
			entry = "," + entry
		}
		if len(array)+len(entry)+1 > 1024 {
			dropped++
			continue
		}
		array += entry
	}
	attributes["kafka_headers_json"] = array + "]"
	if dropped > 0 {
		attributes["kafka_headers_dropped"] = fmt.Sprint(dropped)
	}
}

func jsonEntry(h message.Header) string {
	name := `"name":` + quote(h.Name)
	if !text(h.Name) {
		name = `"name_base64":"` + base64.StdEncoding.EncodeToString([]byte(h.Name)) + `"`
	}
	switch {
	case h.Value == nil:
		return "{" + name + `,"value":null}`
	case text(string(h.Value)):
		return "{" + name + `,"value":` + quote(string(h.Value)) + "}"
	default:
		return "{" + name + `,"base64":"` + base64.StdEncoding.EncodeToString(h.Value) + `"}`
	}
}

func quote(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case strings.ContainsRune("\b\f\n\r\t", r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		case r < ' ':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

func traceparent(s string) bool {
	parts := strings.Split(s, "-")
	if len(parts) < 4 || (parts[0] == "00" && len(parts) > 4) || parts[0] == "ff" {
		return false
	}
	for i, n := range []int{2, 32, 16, 2} {
		if len(parts[i]) != n || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return false
		}
	}
	return strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}

// marshal is the request as protobuf writes it.
func marshal(t testing.TB, messages ...*pubsubpb.PubsubMessage) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pubsubpb.PublishRequest{Topic: testDestination, Messages: messages})
	if err != nil {
		t.Fatalf("marshalling the reference: %v", err)
	}
	return b
}

// decode reads message fields with the official types.
func decode(t testing.TB, fields []byte) []*pubsubpb.PubsubMessage {
	t.Helper()
	var r pubsubpb.PublishRequest
	if err := proto.Unmarshal(fields, &r); err != nil {
		t.Fatalf("official types refuse the bytes: %v", err)
	}
	return r.Messages
}

// checkLegal fails the test when m breaks a limit of Pub/Sub other than size.
func checkLegal(t testing.TB, m *pubsubpb.PubsubMessage) {
	t.Helper()
	if len(m.Attributes) > 100 || len(m.Attributes) == 0 && len(m.Data) == 0 {
		t.Errorf("message has %d attributes and %d bytes of data", len(m.Attributes), len(m.Data))
	}
	for name, value := range m.Attributes {
		if name == "" || len(name) > 256 || len(value) > 1024 || !text(name) || !text(value) {
			t.Errorf("attribute %q is illegal: name of %d bytes, value of %d", name, len(name), len(value))
		}
		if strings.HasPrefix(name, "goog") && name != "googclient_traceparent" {
			t.Errorf("attribute %q has the reserved prefix", name)
		}
	}
	if len(m.OrderingKey) > 1024 || !text(m.OrderingKey) {
		t.Errorf("ordering key of %d bytes is illegal", len(m.OrderingKey))
	}
}

// checkHeaders fails the test unless each header of a record is either an
// attribute of its own, or the next entry of the JSON array, or counted.
func checkHeaders(t testing.TB, attributes map[string]string, headers []message.Header) {
	t.Helper()
	var entries []struct {
		Name       *string `json:"name"`
		NameBase64 []byte  `json:"name_base64"`
		Value      *string `json:"value"`
		Base64     []byte  `json:"base64"`
	}
	if array, ok := attributes["kafka_headers_json"]; ok {
		if err := json.Unmarshal([]byte(array), &entries); err != nil {
			t.Fatalf("kafka_headers_json is not JSON: %v", err)
		}
	}
	dropped, _ := strconv.Atoi(attributes["kafka_headers_dropped"])
	own := 0
	for name := range attributes {
		if strings.HasPrefix(name, "kafka_header_") {
			own++
		}
	}
	if own+len(entries)+dropped != len(headers) {
		t.Errorf("%d own, %d in JSON, %d dropped, want %d in all", own, len(entries), dropped, len(headers))
	}
	last := make(map[string]string)
	for _, h := range headers {
		last[h.Name] = string(h.Value)
		if len(entries) == 0 {
			continue
		}
		name, value := string(entries[0].NameBase64), entries[0].Base64
		if entries[0].Name != nil {
			name = *entries[0].Name
		}
		if entries[0].Value != nil {
			value = []byte(*entries[0].Value)
		}
		if name == h.Name && bytes.Equal(value, h.Value) && (value == nil) == (h.Value == nil) {
			entries = entries[1:]
		}
	}
	if len(entries) > 0 {
		t.Errorf("%d JSON entries are not headers in record order", len(entries))
	}
	for name, value := range attributes {
		if header, ok := strings.CutPrefix(name, "kafka_header_"); ok && last[header] != value {
			t.Errorf("attribute %q is not the last value of its header", name)
		}
	}
}
