package bqjson_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/mskbridge/mskbridge/internal/bqjson"
)

// BenchmarkRefusal is 1 KB of change events. Syntax alone is what encoding/json
// takes for no more than its syntax.
func BenchmarkRefusal(b *testing.B) {
	event := []byte(`{"op":"u","ts_ms":1700000000000,"source":{"db":"shop","table":"orders","lsn":884213355},"after":{"id":4711,` +
		`"status":"PAID","total":19.99,"discount":null,"gift":true,"note":"leave at the \"back\" door, gr\u00f6\u00dfer"}},`)
	value := append(append([]byte("["), bytes.Repeat(event, 5)...), "1]"...)
	b.Run("all", func(b *testing.B) {
		b.SetBytes(int64(len(value)))
		for b.Loop() {
			if bqjson.Refusal(value) != "" {
				b.Fatal("refused")
			}
		}
	})
	b.Run("syntax alone", func(b *testing.B) {
		b.SetBytes(int64(len(value)))
		for b.Loop() {
			if !json.Valid(value) {
				b.Fatal("invalid")
			}
		}
	})
}
