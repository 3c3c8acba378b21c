package message

import "encoding/base64"

// leave writes the headers that are not in chosen, which is still in record
// order, into the JSON array.
func (p *headerPlan) leave(hs []Header) {
	const shortest = len(`,{"name":"","value":""}`)
	p.json = append(p.json[:0], '[')
	written, k := 0, 0
	for i := range hs {
		if k < len(p.chosen) && int(p.chosen[k].index) == i {
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
	from := 0 // what is before is written
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(append(b, text[from:i]...), '\\')
		switch from = i + 1; {
		case c >= ' ':
			b = append(b, c)
		case c >= '\b' && c <= '\r' && c != '\v':
			b = append(b, "btn_fr"[c-'\b'])
		default:
			b = append(b, 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		}
	}
	return append(append(b, text[from:]...), '"')
}
