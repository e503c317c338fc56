// The keys of a lock on the server: holder, queue, places and their expiry.

package model

// holder returns the owner that holds the lock, or nobody.
func (v *Server) holder() int {
	for i := range v.Records {
		if v.Records[i].Holds == 1 {
			return i
		}
	}
	return nobody
}

// kept returns whether the lock is taken by nobody, because its MinHold has not passed.
func (v *Server) kept() bool { return v.Token > 0 && v.holder() == nobody }

// first returns the head of the queue, or nobody.
func (v *Server) first() int {
	for i := range v.Records {
		if v.Records[i].Position == 1 {
			return i
		}
	}
	return nobody
}

// unhold takes the lock from its holder.
func (v *Server) unhold() {
	for i := range v.Records {
		v.Records[i].Holds = 0
	}
}

// free deletes the lock.
func (v *Server) free() {
	v.unhold()
	v.Token, v.Left = 0, 0
}

// leave removes an owner from the queue.
func (v *Server) leave(o int) {
	position := v.Records[o].Position
	if position == 0 {
		return
	}
	for i := range v.Records {
		if v.Records[i].Position > position {
			v.Records[i].Position--
		}
	}
	v.Records[o].Position = 0
}

// dropExpired removes at most n expired places.
func (v *Server) dropExpired(limit int) {
	for i := range v.Records {
		if v.Records[i].Place == 1 && limit > 0 {
			v.leave(i)
			v.Records[i].Place = 0
			limit--
		}
	}
}

// endEmptyQueue deletes the keys of an empty queue.
func (v *Server) endEmptyQueue() {
	for i := range v.Records {
		if v.Records[i].Position > 0 || v.Records[i].Place > 0 {
			return
		}
	}
	v.QueueLeft = 0
}

// dropQueue deletes the queue and the places.
func (v *Server) dropQueue() {
	for i := range v.Records {
		v.Records[i].Position, v.Records[i].Place = 0, 0
	}
	v.QueueLeft = 0
}

// alive returns whether an owner has a live place.
func (v *Server) alive(o int) bool { return v.Records[o].Place > 1 }

// allDead returns whether the queue is not empty and all places have expired.
func (v *Server) allDead() bool {
	waiting := false
	for i := range v.Records {
		if v.alive(i) {
			return false
		}
		waiting = waiting || v.Records[i].Position > 0 || v.Records[i].Place > 0
	}
	return waiting
}

// tick advances the server's clock by a tick.
func (v *Server) tick() {
	if pass(&v.Left) {
		v.free()
	}
	if pass(&v.LastLeft) {
		v.Last = 0
	}
	if pass(&v.QueueLeft) {
		v.dropQueue()
	}
	for i := range v.Records {
		if v.Records[i].Place > 1 {
			v.Records[i].Place--
		}
		pass(&v.Records[i].Tombstone)
	}
}

// pass subtracts a tick from a remaining time and returns whether it has ended.
func pass(left *uint8) bool {
	if *left == 0 || *left == forever {
		return false
	}
	*left--
	return *left == 0
}
