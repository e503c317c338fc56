package model

// holder is the owner that the lock belongs to.
func (v *Server) holder() int {
	for i := range v.Seats {
		if v.Seats[i].Holds == 1 {
			return i
		}
	}
	return nobody
}

// first is the head of the queue.
func (v *Server) first() int {
	for i := range v.Seats {
		if v.Seats[i].Turn == 1 {
			return i
		}
	}
	return nobody
}

// free deletes the lock.
func (v *Server) free() {
	for i := range v.Seats {
		v.Seats[i].Holds = 0
	}
	v.Token, v.Left = 0, 0
}

// leave takes an owner out of the queue.
func (v *Server) leave(o int) {
	turn := v.Seats[o].Turn
	if turn == 0 {
		return
	}
	for i := range v.Seats {
		if v.Seats[i].Turn > turn {
			v.Seats[i].Turn--
		}
	}
	v.Seats[o].Turn = 0
}

// dropEnded takes places that have ended out of the queue, at most so many.
func (v *Server) dropEnded(most int) {
	for i := range v.Seats {
		if v.Seats[i].Place == 1 && most > 0 {
			v.leave(i)
			v.Seats[i].Place = 0
			most--
		}
	}
}

// emptied ends the keys of a queue in which nobody is left.
func (v *Server) emptied() {
	for i := range v.Seats {
		if v.Seats[i].Turn > 0 || v.Seats[i].Place > 0 {
			return
		}
	}
	v.QueueLeft = 0
}

// dropQueue deletes the queue and the places.
func (v *Server) dropQueue() {
	for i := range v.Seats {
		v.Seats[i].Turn, v.Seats[i].Place = 0, 0
	}
	v.QueueLeft = 0
}

// alive tells whether an owner has a place that has not ended.
func (v *Server) alive(o int) bool { return v.Seats[o].Place > 1 }

// allDead tells whether all who are in the queue have lost their places.
func (v *Server) allDead() bool {
	waiting := false
	for i := range v.Seats {
		if v.alive(i) {
			return false
		}
		waiting = waiting || v.Seats[i].Turn > 0 || v.Seats[i].Place > 0
	}
	return waiting
}

// tick lets a tick pass on the server's clock.
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
	for i := range v.Seats {
		if v.Seats[i].Place > 1 {
			v.Seats[i].Place--
		}
		pass(&v.Seats[i].Tomb)
	}
}

// pass lets a tick pass of a time that is left, and tells whether that has ended it.
func pass(left *uint8) bool {
	if *left == 0 || *left == forever {
		return false
	}
	*left--
	return *left == 0
}
