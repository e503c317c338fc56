// The median, the 99th percentile and the maximum of measured durations.

package crash

import (
	"fmt"
	"slices"
	"sync"
	"time"
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
	if len(s.all) == 0 {
		return "none"
	}
	slices.Sort(s.all)
	at := func(percent int) time.Duration {
		return s.all[(len(s.all)-1)*percent/100].Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("%d, p50 %v, p99 %v, max %v", len(s.all), at(50), at(99), at(100))
}
