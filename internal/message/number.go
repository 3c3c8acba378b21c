package message

// number writes an attribute whose value is a decimal, perhaps behind a text.
// All but the digits is ready as wire bytes, since their count hardly ever
// changes from one record to the next.
type number struct {
	name   string
	before []byte // text in front of the digits
	wire   []byte // the attribute up to its digits
	digits int    // how many digits wire is made for
}

// follow sets the text in front of the digits.
func (n *number) follow(before []byte) {
	n.before, n.digits = before, 0
}

func (n *number) appendTo(b, decimal []byte) []byte {
	if n.digits != len(decimal) {
		n.digits = len(decimal)
		n.wire = appendAttributeName(n.wire[:0], n.name, len(n.before)+len(decimal))
		n.wire = append(n.wire, n.before...)
	}
	b = append(b, n.wire...)
	return append(b, decimal...)
}
