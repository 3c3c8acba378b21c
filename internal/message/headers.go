package message

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// headerPlan says where each header of one record goes: to an attribute of its
// own, into kafka_headers_json, or into the count kafka_headers_dropped.
//
// The last header of a name may become an attribute; if it cannot (null, not
// text, too long, no name), none of that name does, since an older value would
// pose as the current one. All others are left: they go into the JSON array,
// in record order, each one that still fits into 1,024 bytes; what does not is
// counted. Of more headers than 100 attributes can hold the first stay, and
// two attributes are set aside for the array and the count.
//
// An entry of the array is {"name":N,"value":V}; V is null for Kafka's null. A
// value that is not text is {"name":N,"base64":B}, and a name that is not text
// {"name_base64":B, ...}: base64 in the standard alphabet, padded.
type headerPlan struct {
	chosen  []int32 // indexes of the headers with an attribute of their own, by name
	left    int     // headers that are not in chosen
	json    []byte  // array of those left, as far as it fits
	dropped int     // how many of them did not fit
	trace   int     // index of a valid traceparent, -1 for none

	last map[string]int32 // for many headers: index of the last one of each name
}

const (
	// scanMax is the number of headers up to which comparing each name with
	// those behind it is cheaper than a map.
	scanMax = 16
	// keepMax is the number of headers up to which the map is kept for the next
	// record; above, its memory is given back.
	keepMax = 1024
)

// plan decides for all headers. Room is the number of attributes that the
// headers and what follows from them may take. The time is linear in the bytes
// of the headers, however hostile.
func (p *headerPlan) plan(hs []Header, room int) {
	p.chosen, p.left, p.trace = p.chosen[:0], 0, -1
	if len(hs) == 0 {
		return
	}
	p.index(hs)
	for i := range hs {
		if !p.isLast(hs, i) || !hs[i].attributable() {
			continue
		}
		if hs[i].Name == "traceparent" && isTraceparent(hs[i].Value) {
			p.trace = i
			room--
		}
		if len(p.chosen) < MaxAttributes {
			p.chosen = append(p.chosen, int32(i))
		}
	}
	p.forget(hs)
	if len(p.chosen) < len(hs) || len(p.chosen) > room {
		p.chosen = p.chosen[:min(len(p.chosen), room-2)]
		p.leave(hs)
	}
	slices.SortFunc(p.chosen, func(i, j int32) int { return strings.Compare(hs[i].Name, hs[j].Name) })
}

// appendTo appends the attributes of the planned headers.
func (p *headerPlan) appendTo(b []byte, hs []Header) []byte {
	for _, i := range p.chosen {
		name, value := hs[i].Name, hs[i].Value
		n := len(AttrHeaderPrefix) + len(name)
		b = appendField(b, tagAttribute, sizeField(n)+sizeField(len(value)))
		b = appendField(b, tagName, n)
		b = append(b, AttrHeaderPrefix...)
		b = append(b, name...)
		b = appendField(b, tagValue, len(value))
		b = append(b, value...)
	}
	if p.left == 0 {
		return b
	}
	if p.dropped > 0 {
		var digits [20]byte
		b = appendAttribute(b, AttrHeadersDropped, strconv.AppendInt(digits[:0], int64(p.dropped), 10))
	}
	return appendAttribute(b, AttrHeadersJSON, p.json)
}

// attributable reports whether h can be an attribute by its own bytes.
func (h *Header) attributable() bool {
	return h.Name != "" && len(AttrHeaderPrefix)+len(h.Name) <= MaxAttributeName && isTextString(h.Name) &&
		h.Value != nil && len(h.Value) <= MaxAttributeValue && isText(h.Value)
}

// index prepares isLast for a record with many headers.
func (p *headerPlan) index(hs []Header) {
	if len(hs) <= scanMax {
		return
	}
	if p.last == nil {
		p.last = make(map[string]int32)
	}
	for i := range hs {
		p.last[hs[i].Name] = int32(i)
	}
}

// isLast reports whether no header behind i has its name.
func (p *headerPlan) isLast(hs []Header, i int) bool {
	if len(hs) > scanMax {
		return p.last[hs[i].Name] == int32(i)
	}
	for j := i + 1; j < len(hs); j++ {
		if hs[j].Name == hs[i].Name {
			return false
		}
	}
	return true
}

// forget lets go of the names that index saw.
func (p *headerPlan) forget(hs []Header) {
	switch {
	case len(hs) > keepMax:
		p.last = nil
	case len(hs) > scanMax:
		clear(p.last)
	}
}

// leave writes the headers that are not in chosen, which is still in record
// order, into the JSON array.
func (p *headerPlan) leave(hs []Header) {
	const shortest = len(`,{"name":"","value":""}`)
	p.json = append(p.json[:0], '[')
	written, k := 0, 0
	for i := range hs {
		if k < len(p.chosen) && int(p.chosen[k]) == i {
			k++
			continue
		}
		end := len(p.json)
		if end+shortest >= MaxAttributeValue {
			break
		}
		if len(hs[i].Name)+len(hs[i].Value) > MaxAttributeValue {
			continue
		}
		if written > 0 {
			p.json = append(p.json, ',')
		}
		p.json = hs[i].appendJSON(p.json)
		if len(p.json) >= MaxAttributeValue { // no room for the bracket
			p.json = p.json[:end]
			continue
		}
		written++
	}
	p.json = append(p.json, ']')
	p.left = len(hs) - len(p.chosen)
	p.dropped = p.left - written
}

// appendJSON appends h as an entry of kafka_headers_json.
func (h *Header) appendJSON(b []byte) []byte {
	if isTextString(h.Name) {
		b = append(b, `{"name":`...)
		b = appendQuoted(b, h.Name)
	} else {
		b = append(b, `{"name_base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, []byte(h.Name))
		b = append(b, '"')
	}
	switch {
	case h.Value == nil:
		return append(b, `,"value":null}`...)
	case isText(h.Value):
		b = append(b, `,"value":`...)
		b = appendQuoted(b, h.Value)
	default:
		b = append(b, `,"base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, h.Value)
		b = append(b, '"')
	}
	return append(b, '}')
}

// appendQuoted appends text as a JSON string, escaping no more than it must.
func appendQuoted[T string | []byte](b []byte, text T) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
