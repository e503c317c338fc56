package leaseprom_test

import "github.com/leasewheel/leasewheel/schedule"

// engine is a timer engine that can be closed.
type engine interface {
	schedule.Scheduler
	Close() []schedule.Task
}
