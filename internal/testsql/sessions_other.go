//go:build !linux

package testsql

// sessions is not known here. Sessions end soon after their postmaster.
func (p *Postgres) sessions() []int { return nil }
