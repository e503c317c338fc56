package whole

import "time"

// excludes checks all holders at the moment when another gets their lock: nobody
// whom it shuts out may believe to have it. The caller holds mu.
func (w *world) excludes(by *tenure) {
	room := 0 // for others
	if by.mode == permit {
		room = permits - 1
	}
	believe, untold := 0, 0
	var example *tenure
	for _, t := range w.tenures {
		if !t.shutsOut(by) {
			continue
		}
		w.check("exclusion")
		if t.handle().Valid() {
			believe++
			example = t
		}
		if _, still := t.process.gate.StoodStill(t.deadline); !still {
			untold++
		}
	}
	switch {
	case believe > room:
		w.violated("exclusion", "S1: %s is granted to p%d while the handle of p%d is valid, its deadline %v away",
			by.key, by.process.id, example.process.id, time.Until(example.handle().Deadline()))
	case untold > room:
		w.violated("exclusion", "S2: %s is granted to p%d before others were told", by.key, by.process.id)
	}
}

// shutsOut tells whether a holder, who may believe that it is one, leaves no room for
// another, or less.
func (t *tenure) shutsOut(by *tenure) bool {
	switch {
	case t.key != by.key || t.handle() == nil || t.void || closed(t.done):
		return false
	case t.mode == reading && by.mode == reading:
		return false
	case t.mode == several && by.mode == several:
		return overlap(t.members, by.members)
	}
	return true
}

// turned: the server has made a reader of a writer. From then on others may read, so
// that one must not believe any more that it may write. The caller holds mu.
func (w *world) turned(key string, l lease) {
	t := w.tenures[w.idOf(key, l.owner, l.token)]
	if t == nil || t.mode == l.mode || l.mode != reading { // by another server of a quorum, or one that fell back to a copy
		return
	}
	w.check("turned")
	w.note("%s of p%d is turned to %s", key, t.process.id, l.mode)
	if t.handle() != nil && t.handle().Valid() {
		w.violated("exclusion", "S1: %s may be read by others while p%d believes to be its writer", key, t.process.id)
	}
	t.mode = l.mode
}

// continues: the holder has the handle of a reader in place of that of a writer, or
// another in the same client has the lock.
func (t *tenure) continues() *tenure {
	return &tenure{
		tenureID: t.tenureID, process: t.process, mode: t.mode, try: t.try,
		deadline: t.deadline, sent: t.sent, void: t.void, voidAt: t.voidAt,
		former: t, begun: time.Now(), unsure: t.unsure || t.renewing > 0, doubt: t.doubt,
		denied: t.denied, deniedAt: t.deniedAt, told: t.told, toldAt: t.toldAt,
	}
}
