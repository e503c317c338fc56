// The median, the 99th percentile and the maximum of measured durations.

package crash

import (
	"sync"
	"time"

	lines "github.com/leasewheel/leasewheel/internal/report"
)

// durations collects measured durations. It is safe for concurrent use.
type durations struct {
	mu  sync.Mutex // guards all
	all []time.Duration
}

func (s *durations) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

func (s *durations) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// String returns the number, the median, the 99th percentile and the maximum.
func (s *durations) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lines.Quantiles(s.all)
}
