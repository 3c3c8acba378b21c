package message

import (
	"bytes"
	"slices"
	"strconv"
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
	chosen  []chosenHeader // those with an attribute of their own, by name
	wire    []byte         // their names as wire bytes
	left    int            // headers that are not in chosen
	json    []byte         // array of those left, as far as it fits
	dropped int            // how many of them did not fit
	trace   int            // index of a valid traceparent, -1 for none

	last map[string]int32 // for many headers: index of the last one of each name
}

// chosenHeader is the header hs[index]: wire[field:end] is the name field of
// its attribute, wire[name:end] the header's own name.
type chosenHeader struct{ index, field, name, end int32 }

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
	if p.trace = -1; len(hs) == 0 || p.repeats(hs, room) {
		return
	}
	p.chosen, p.wire, p.left, p.trace = p.chosen[:0], p.wire[:0], 0, -1
	p.index(hs)
	for i := range hs {
		if !hs[i].valueFits() || !hs[i].nameFits() || !p.isLast(hs, i) {
			continue
		}
		if p.noteTrace(hs, i) {
			room--
		}
		if len(p.chosen) < MaxAttributes {
			p.choose(hs, i)
		}
	}
	p.forget(hs)
	if len(p.chosen) < len(hs) || len(p.chosen) > room {
		p.chosen = p.chosen[:min(len(p.chosen), room-2)]
		p.leave(hs)
	}
	slices.SortFunc(p.chosen, func(a, b chosenHeader) int {
		return bytes.Compare(p.wire[a.name:a.end], p.wire[b.name:b.end])
	})
}

// repeats reports whether the plan of the record before holds for hs too.
// Producers write the same names into one record after another, so that most
// times only the values have to be looked at.
func (p *headerPlan) repeats(hs []Header, room int) bool {
	if len(hs) != len(p.chosen) || p.left > 0 || len(hs) >= room {
		return false
	}
	for i := range p.chosen {
		c := &p.chosen[i]
		h := &hs[c.index]
		if string(p.wire[c.name:c.end]) != h.Name || !h.valueFits() {
			return false
		}
		p.noteTrace(hs, int(c.index))
	}
	return true
}

// noteTrace reports whether header i is a valid traceparent.
func (p *headerPlan) noteTrace(hs []Header, i int) bool {
	if hs[i].Name != "traceparent" || !isTraceparent(hs[i].Value) {
		return false
	}
	p.trace = i
	return true
}

// choose gives header i an attribute of its own.
func (p *headerPlan) choose(hs []Header, i int) {
	c := chosenHeader{index: int32(i), field: int32(len(p.wire))}
	p.wire = appendField(p.wire, tagName, len(AttrHeaderPrefix)+len(hs[i].Name))
	p.wire = append(p.wire, AttrHeaderPrefix...)
	c.name = int32(len(p.wire))
	p.wire = append(p.wire, hs[i].Name...)
	c.end = int32(len(p.wire))
	p.chosen = append(p.chosen, c)
}

// appendTo appends the attributes of the planned headers.
func (p *headerPlan) appendTo(b []byte, hs []Header) []byte {
	if len(hs) == 0 {
		return b // the plan is that of a record before
	}
	for i := range p.chosen {
		c := &p.chosen[i]
		value := hs[c.index].Value
		b = appendField(b, tagAttribute, int(c.end-c.field)+sizeField(len(value)))
		b = append(b, p.wire[c.field:c.end]...)
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

// nameFits reports whether an attribute can have the name of h.
func (h *Header) nameFits() bool {
	return h.Name != "" && len(AttrHeaderPrefix)+len(h.Name) <= MaxAttributeName && isTextString(h.Name)
}

// valueFits reports whether an attribute can have the value of h.
func (h *Header) valueFits() bool {
	return h.Value != nil && len(h.Value) <= MaxAttributeValue && isText(h.Value)
}

// index prepares isLast for a record with many headers.
func (p *headerPlan) index(hs []Header) {
	if len(hs) <= scanMax {
		return
	}
	if p.last == nil {
		p.last = make(map[string]int32, len(hs))
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
	if len(hs) > keepMax {
		p.last = nil
	}
	clear(p.last)
}
