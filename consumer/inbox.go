package consumer

import "sync"

// inbox carries work to a lane, in order and without ever blocking the sender.
// The gate bounds what lies in it.
type inbox struct {
	wake chan struct{} // written by put, read by the lane; one token is enough

	mu    sync.Mutex // guards items
	items []func()
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

// put queues f to run on the lane's goroutine.
func (b *inbox) put(f func()) {
	b.mu.Lock()
	b.items = append(b.items, f)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns what was queued since the last take.
func (b *inbox) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = nil
	return items
}
