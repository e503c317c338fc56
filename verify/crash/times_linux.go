package crash

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// times are durations that were measured. Its methods are safe for concurrent use.
type times struct {
	mu  sync.Mutex // guards all
	all []time.Duration
}

func (s *times) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, d)
}

func (s *times) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// String shows the median, the worst but one in a hundred, and the worst.
func (s *times) String() string {
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
