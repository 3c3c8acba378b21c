package logging

import (
	"encoding"
	"fmt"
	"log/slog"
	"reflect"
)

// printable replaces a value that might hold a payload, a key or a header by
// the name of its type. Numbers, strings, times, errors, and types that say
// themselves how to be printed, pass; so do lists and maps of these.
func printable(a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindAny {
		return a
	}
	v := a.Value.Any()
	switch x := v.(type) {
	case nil:
	case interface{ ProtoMessage() }, interface{ Bytes() []byte }: // these have String too, and it shows everything
		return slog.String(a.Key, "("+reflect.TypeOf(v).String()+")")
	case error:
		return slog.String(a.Key, x.Error())
	case fmt.Stringer:
		return slog.String(a.Key, x.String())
	case encoding.TextMarshaler:
	default:
		if t := reflect.TypeOf(v); !printableType(t) {
			return slog.String(a.Key, "("+t.String()+")")
		}
	}
	return a
}

// printableType reports whether values of t are made of numbers and strings
// only. Bytes are no numbers here.
func printableType(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return true
	case reflect.Slice, reflect.Array:
		return printableType(t.Elem())
	case reflect.Map:
		return printableType(t.Key()) && printableType(t.Elem())
	default:
		return false
	}
}
