// CloseHandler, for tasks that are notified when their engine is closed.

package schedule

// CloseHandler is an optional interface of a Task. It reports that a timer will never fire
// because the engine was closed. A timer that guards a deadline needs this, because nothing
// else would notice the deadline.
type CloseHandler interface {
	// EngineClosed is called once for each timer whose task the engine's Close returns. The
	// call is made by that Close on its own goroutine, after the last Run of the engine has
	// returned. The engine holds no lock, and all its timers have ended.
	//
	// EngineClosed must not block, because it delays the calls for other tasks. The engine
	// recovers and reports a panic.
	EngineClosed()
}

// NotifyClosed calls EngineClosed of each task that implements CloseHandler. It makes all
// calls, even if one of them panics or ends its goroutine. It calls recovered with the value
// of each panic, while the stack of the panic is still available. NotifyClosed is for authors
// of engines, who call it at the end of Close.
func NotifyClosed(tasks []Task, recovered func(task Task, value any)) {
	for len(tasks) > 0 {
		tasks = notifyClosed(tasks, recovered)
	}
}

// notifyClosed calls EngineClosed of the tasks up to the first panic. It returns the tasks
// after that one.
func notifyClosed(tasks []Task, recovered func(task Task, value any)) (rest []Task) {
	returned := false
	defer func() {
		if returned {
			return
		}
		task := rest[0]
		rest = rest[1:]
		if value := recover(); value != nil {
			recovered(task, value)
			return
		}
		NotifyClosed(rest, recovered) // runtime.Goexit: the caller does not continue
	}()
	for rest = tasks; len(rest) > 0; rest = rest[1:] {
		if handler, ok := rest[0].(CloseHandler); ok {
			handler.EngineClosed()
		}
	}
	returned = true
	return nil
}
