//go:build !linux

// The processes of PostgreSQL sessions on systems other than Linux.

package testsql

// sessions is not known here. Sessions end soon after their postmaster.
func (p *Postgres) sessions() []int { return nil }
