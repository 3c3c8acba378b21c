package sink

const (
	// refusedInRow and refusedWindow say when refusals are no longer the
	// records' fault: that many in a row, or more than half of the window.
	refusedInRow  = 20
	refusedWindow = 1000
)

// refusals tells poison from a destination that refuses everything, by what
// the server said about the latest records of a route. What the encoder
// refused is not in here. The zero value is ready. Not safe for concurrent use.
type refusals struct {
	row     int // refused in a row
	refused int // in the window
	at      int // where the window's next entry goes
	window  [refusedWindow]bool
}

// accept notes n accepted records.
func (r *refusals) accept(n int) {
	r.row = 0
	if r.refused == 0 {
		return // the window is all accepted already
	}
	for range min(n, refusedWindow) {
		r.push(false)
	}
}

// refuse notes a refused record and reports whether it is one too many.
func (r *refusals) refuse() bool {
	r.row++
	r.push(true)
	return r.row >= refusedInRow || r.refused > refusedWindow/2
}

// reset forgets everything.
func (r *refusals) reset() { *r = refusals{} }

func (r *refusals) push(refused bool) {
	if r.window[r.at] {
		r.refused--
	}
	if r.window[r.at] = refused; refused {
		r.refused++
	}
	r.at = (r.at + 1) % refusedWindow
}
