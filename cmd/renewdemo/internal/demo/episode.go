// What a fault of the page has led to.

package demo

import "time"

// episode is a fault, and what it has led to so far. Its exported fields go to the page. Instants are
// in milliseconds since 1970.
type episode struct {
	Fault   string  `json:"fault"`
	Began   float64 `json:"began"`
	Ended   float64 `json:"ended,omitempty"`
	Failed  string  `json:"failed,omitempty"`
	Resumed float64 `json:"resumed,omitempty"` // when the process went on, or the server answered again
	Valid   int     `json:"valid"`             // leases that were Valid right after a pause
	Held    int     `json:"held"`              // leases that the fault can cost
	Told    int     `json:"told"`              // holders notified of a loss
	Late    int     `json:"late"`              // of these, notified when the store could already grant the key
	First   float64 `json:"first,omitempty"`   // when the first and the last of them were notified
	Last    float64 `json:"last,omitempty"`
	Least   float64 `json:"least"`            // the shortest time in ms from notifying a holder to the end of its lease
	Rival   float64 `json:"rival,omitempty"`  // when the rival had the watched lock
	Holder  float64 `json:"holder,omitempty"` // when its holder was notified
	Bin     float64 `json:"bin"`              // the width of a bin, in ms
	ToldBy  []int   `json:"toldBy"`           // holders notified in each bin since Began
	FreeBy  []int   `json:"freeBy"`           // of their leases, those that end at the store in each bin
}

const (
	episodeBin  = 100 * time.Millisecond
	episodeBins = 600 // a minute
)

func newEpisode(fault string, began time.Time, held int) *episode {
	return &episode{Fault: fault, Began: unixMS(began), Held: held, Bin: float64(episodeBin.Milliseconds())}
}

// add records that the holder of a lock was notified at an instant, and when its lease ends at the store.
// The caller holds page.mu.
func (e *episode) add(number int, at, end time.Time) {
	now := unixMS(at)
	left := float64(end.Sub(at).Microseconds()) / 1000
	if e.Told == 0 {
		e.First, e.Least = now, left
	}
	e.Told++
	e.Held = max(e.Held, e.Told) // some were taken just as the fault began
	e.Last, e.Least = now, min(e.Least, left)
	if left <= 0 {
		e.Late++
	}
	if number == 0 && e.Holder == 0 {
		e.Holder = now
	}
	e.ToldBy = addTo(e.ToldBy, (now-e.Began)/e.Bin)
	e.FreeBy = addTo(e.FreeBy, (unixMS(end)-e.Began)/e.Bin)
}

// addTo counts an event in a bin. The bins grow up to episodeBins, and the last one has all later events.
func addTo(bins []int, at float64) []int {
	bin := min(max(int(at), 0), episodeBins-1)
	for len(bins) <= bin {
		bins = append(bins, 0)
	}
	bins[bin]++
	return bins
}

// copy returns a copy that shares nothing.
func (e *episode) copy() *episode {
	if e == nil {
		return nil
	}
	c := *e
	c.ToldBy, c.FreeBy = append([]int{}, e.ToldBy...), append([]int{}, e.FreeBy...)
	return &c
}
