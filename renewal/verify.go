// Verification: early renewals of the leases that a server may have lost.

package renewal

import (
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
)

// A server that has lost its data, or a replica that was behind and takes over, grants a lock again although it is held. The
// holder would learn that from its next renewal, a period later at worst. So the leases of a lane are renewed early when the
// store reports EventVerify, or when renewals were denied. Early renewals are sent beside the regular ones, which
// neither wait for them nor change because of them, unless an answer confirms or denies a lease; see applyEarly.

const (
	// verifyRate bounds the early renewals of a lane per second. 100,000 leases take half a second at least.
	verifyRate = 200_000

	// verifyTries is how often the leases of one batch are sent if none of them gets an answer, and verifyPause the time
	// in between. Afterwards the regular renewals find out.
	verifyTries = 3
	verifyPause = 50 * time.Millisecond

	// sampleSize is how many leases of a lane are verified after a denial that no others accompany. A denial is
	// isolated if so many others were confirmed by the same answer.
	sampleSize = 16

	// sampleInterval is the least time between two samples of a lane. Locks that are released by force, one at a time, cost
	// no more than that.
	sampleInterval = time.Second
)

// verification is the early renewals of a lane. The watchdog's mu guards it.
type verification[L any] struct {
	entries []*Entry[L] // to be sent; some may have ended
	running bool        // a worker sends them
	suspect bool        // the pass under way of the monitor collects the entries of the lane, or of all lanes
	passing bool        // they are all entries of the lane, which are being collected or sent
	passes  int         // that have begun to collect entries
	batches int         // of this pass so far
	tries   int         // of the latest batch, which have no answer
	begun   int64       // when the latest pass began, on the monotonic clock
	limit   int64       // no pass begins before, unless the server has changed since begun
	sample  int64       // no sample is taken before
	again   bool        // the server has changed during the pass, which must be repeated
}

// suspect begins a pass that verifies all leases of a lane, unless one is under way or the latest is too recent. The caller
// holds mu.
func (w *Watchdog[L]) suspect(l *lane[L], now instant) {
	if w.closed || w.held == 0 {
		return
	}
	v := &l.early
	_, changed := w.changedSince(v.begun+1, l)
	switch {
	case v.passing:
		v.tries = 0 // the server answers now
		// The batch that meets a new server reports it. What was sent before may have been confirmed by the old one.
		if changed && v.batches <= 1 {
			v.begun = now.mono
		}
		v.again = v.again || changed && v.batches > 1
		return
	case now.mono < v.limit && !changed:
		return
	}
	v.begin(now.mono)
	v.suspect, w.monitor.suspecting = true, true
	w.beginPass(verifyPass)
	w.wakeMonitor(now.mono, now)
}

// begin begins a pass.
func (v *verification[L]) begin(at int64) {
	v.passing, v.batches, v.begun, v.limit = true, 0, at, at
	v.collect()
}

// collect drops the entries that are not sent yet, because a pass is about to collect all. The caller holds mu.
func (v *verification[L]) collect() {
	v.passes++
	v.entries = nil
}

// collecting reports whether the pass under way collects the entries of a lane. The caller holds mu.
func (w *Watchdog[L]) collecting(l *lane[L]) bool {
	all := w.lanes[AllLanes]
	return l.early.suspect || all != nil && all.early.suspect
}

// collectSuspect adds an entry that a pass visits to the verification of its lane, if that is suspected. A lease that no renewal can
// extend is not verified: its key would outlive it. The caller holds mu.
func (w *Watchdog[L]) collectSuspect(e *Entry[L]) {
	if !w.monitor.suspecting || e.deadline().reached(e.maxDeadline) {
		return
	}
	l := w.laneOf(e)
	if !w.collecting(l) {
		return
	}
	v := &l.early
	if all := w.lanes[AllLanes]; all != nil && all.early.suspect {
		all.early.limit = max(all.early.limit, all.early.begun+int64(e.period))
		if !v.passing {
			v.begin(all.early.begun)
		}
	}
	v.entries = append(v.entries, e)
	v.limit = max(v.limit, v.begun+int64(e.period))
}

// collectAgain drops what the pass under way has collected, because it begins again. The caller holds mu.
func (w *Watchdog[L]) collectAgain() {
	for _, l := range w.lanes {
		if w.collecting(l) {
			l.early.collect()
		}
	}
}

// startVerifications starts to send what a pass has collected. The caller holds mu.
func (w *Watchdog[L]) startVerifications() {
	if !w.monitor.suspecting {
		return
	}
	for _, l := range w.lanes {
		if v := &l.early; w.collecting(l) {
			v.passing = v.passing && (v.running || len(v.entries) > 0)
			w.startVerification(l)
		}
	}
	for _, l := range w.lanes {
		l.early.suspect = false
		w.forget(l)
	}
	w.monitor.suspecting = false
}

// startVerification starts a worker for a verification, if there is something to send. The caller holds mu.
func (w *Watchdog[L]) startVerification(l *lane[L]) {
	if v := &l.early; v.running || w.closed || len(v.entries) == 0 {
		return
	}
	l.early.running = true
	w.workers++
	go w.verify(l)
}

// noteDenials takes the numbers of leases that the answer to a batch has denied before their deadlines and confirmed. After the
// second denial all leases of the lane are verified, after the first one a sample. early reports whether the batch was early. The
// caller holds mu.
func (w *Watchdog[L]) noteDenials(l *lane[L], denied, confirmed int, early bool, now instant) {
	switch {
	case denied == 0 || confirmed >= sampleSize*denied || l.early.passing:
	case denied > 1 || early:
		w.suspect(l, now)
	default:
		w.sample(l, now)
	}
}

// sample verifies a few leases of a lane: those with the earliest deadlines, because they were renewed longest ago. The caller
// holds mu.
func (w *Watchdog[L]) sample(l *lane[L], now instant) {
	v := &l.early
	if v.running || now.mono < v.sample {
		return
	}
	v.sample = now.mono + int64(sampleInterval)
	defer w.startVerification(l)
	visits := maxPerHold
	for _, b := range w.monitor.expiries.buckets {
		for e := b.root.expNext; e != &b.root; e = e.expNext {
			if visits--; visits < 0 || len(v.entries) == sampleSize {
				return
			}
			if w.laneOf(e) == l && !e.deadline().reached(e.maxDeadline) {
				v.entries = append(v.entries, e)
			}
		}
	}
}

// verify sends the leases of a verification in batches, one after the other.
func (w *Watchdog[L]) verify(l *lane[L]) {
	w.mu.Lock()
	defer w.unlock()
	v, b := &l.early, &batch[L]{early: true}
	defer func() {
		w.workers--
		again := v.again
		v.running, v.again = false, false
		if !w.collecting(l) {
			v.entries, v.passing = nil, false
		}
		if again {
			w.suspect(l, w.clock.now())
		}
		w.forget(l)
		w.signalDrained()
	}()
	var sent []*Entry[L]
	for v.tries = 0; w.fillEarly(l, b); {
		sent = append(sent[:0], b.entries...)
		pass := v.passes
		v.batches++
		v.tries++
		w.renew(l, b)
		switch {
		case slices.ContainsFunc(b.outcomes, func(o Outcome) bool { return o != Unknown }):
			v.tries = 0
			if len(v.entries) > 0 {
				w.pause(b.sent, time.Duration(len(sent))*time.Second/verifyRate)
			}
		case v.tries >= verifyTries:
			v.limit = distantPast // for a pass that gets answers
			return
		case v.passes != pass: // it has collected them again
		default:
			v.entries = slices.Insert(v.entries, 0, sent...)
			w.pause(w.clock.now(), verifyPause)
		}
	}
}

// fillEarly moves leases of a verification into b. It returns false if there are none.
func (w *Watchdog[L]) fillEarly(l *lane[L], b *batch[L]) bool {
	b.begin(w.clock.now())
	v, visited := &l.early, 0
	for _, e := range v.entries {
		if w.closed || len(b.entries) == w.opts.tuning.MaxBatch {
			break
		}
		visited++
		if e.expireIfPast(b.sent); e.state == ended {
			continue
		}
		e.lane = l
		b.add(e)
		if e.period < b.attemptTimeout || b.attemptTimeout == 0 {
			b.attemptTimeout = e.period // the shortest: then the regular renewals find out
		}
	}
	clear(v.entries[:visited])
	v.entries = v.entries[visited:]
	return len(b.entries) > 0
}

// pause waits until d after an instant, or until the watchdog is closed. The caller holds mu, which is released.
func (w *Watchdog[L]) pause(from instant, d time.Duration) {
	w.unlock()
	_ = basic.Sleep(w.ctx, d-time.Duration(w.clock.now().mono-from.mono))
	w.mu.Lock()
}
