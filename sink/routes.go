package sink

import "fmt"

// table is the routes in force. It is never written.
type table struct {
	list   []*route // in the order given
	byName map[string]*route
}

// SetRoutes puts other routes in force. One that is as before keeps its state
// and its counters. The caller sees to it that no batch of a route that goes or
// changes is published then or later; it fails only when a topic is there twice
// or has no store for its oversize records, and changes nothing.
func (s *Sink) SetRoutes(routes []Route) error {
	before := s.routes.Load()
	next := &table{byName: make(map[string]*route, len(routes))}
	for _, r := range routes {
		if next.byName[r.Topic] != nil {
			return fmt.Errorf("building routes: topic %s twice", r.Topic)
		}
		if r.Oversize == StoreOversize && r.Store == nil {
			return fmt.Errorf("building routes: topic %s has no store", r.Topic)
		}
		rt := before.byName[r.Topic]
		if rt == nil || rt.Route != r {
			rt = newRoute(r, s.events)
		}
		next.byName[r.Topic] = rt
		next.list = append(next.list, rt)
	}
	s.routes.Store(next)
	return nil
}
