package renewal

import (
	"sync"
	"time"
)

// Hooks are functions that a watchdog calls. Any may be nil. They are called one
// at a time, in the order of events, on a goroutine of their own that holds no
// lock and exists only while there is something to report; they may call the
// watchdog and may block, which delays later calls and the Logger, and nothing else.
// A panic of theirs is not recovered.
type Hooks struct {
	// BatchDone is called after each call of Renew. When more than 1,024 calls
	// are waiting, further ones are dropped and counted in Stats.
	BatchDone func(BatchInfo)

	// Lost is called once for each lease that is lost, never dropped.
	Lost func(LostInfo)
}

// BatchInfo tells of one call of Renew.
type BatchInfo struct {
	Lane    int           // the lane renewed
	Size    int           // leases in the batch
	Renewed int           // answered Renewed
	Lost    int           // answered Lost
	Unknown int           // got no answer
	Ended   int           // lost or stopped meanwhile: their answers are dropped
	Late    time.Duration // the longest that a lease of the batch was sent after its instant, as in Stats
	Took    time.Duration // how long the call took
	Err     error         // what Renew returned
}

// LostInfo tells of one lease that was lost.
type LostInfo struct {
	Lease any // the lease, of the watchdog's type
	Err   *LostError
}

// maxReports bounds the BatchDone calls that wait.
const maxReports = 1024

// reporter calls hooks in order on a goroutine that ends when none is left.
type reporter struct {
	mu      sync.Mutex // guards all below
	queue   []report
	batches int  // of queue, those of BatchDone
	running bool // the goroutine exists
	dropped uint64
}

type report struct {
	call  func()
	batch bool
}

// lost queues a call that is never dropped.
func (r *reporter) lost(call func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(report{call: call})
}

// batch queues a call unless too many wait.
func (r *reporter) batch(call func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.batches >= maxReports {
		r.dropped++
		return
	}
	r.batches++
	r.add(report{call: call, batch: true})
}

// add queues a call and sees to the goroutine. The caller holds mu.
func (r *reporter) add(next report) {
	r.queue = append(r.queue, next)
	if !r.running {
		r.running = true
		go r.run()
	}
}

func (r *reporter) run() {
	ended := false
	defer func() {
		if !ended {
			go r.run() // a hook called runtime.Goexit: the next goroutine goes on
		}
	}()
	for call := r.next(); call != nil; call = r.next() {
		call()
	}
	ended = true
}

// next takes the next call, nil if there is none: then the goroutine ends.
func (r *reporter) next() func() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.queue = nil // let go of the array
		r.running = false
		return nil
	}
	first := r.queue[0]
	r.queue[0] = report{} // let go of what it holds
	r.queue = r.queue[1:]
	if first.batch {
		r.batches--
	}
	return first.call
}

func (r *reporter) droppedCount() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dropped
}
