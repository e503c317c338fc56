package whole

import "github.com/leasewheel/leasewheel/verify/part"

// usual is less than half of what a schedule does on average over all classes.
var usual = part.Floors{
	Operations: map[string]float64{
		"acquire": 10, "batch": 1.3, "downgrade": 0.12, "enter again": 0.33, "executed": 53, "got": 3.1,
		"grant": 4.2, "hello": 13, "lock": 2.9, "multi": 0.25, "permit": 1.4, "ping": 18, "read": 0.62,
		"reentrant": 0.79, "release": 8.2, "renew": 2.7, "renewal without an answer": 0.97, "renewed": 3.8,
		"shared_acquire": 9.8, "shared_release": 7.5, "shared_renew": 2.6, "signal": 1.2, "subscribe": 3.2,
		"try batch": 0.57, "try lock": 1.2, "try multi": 0.12, "try permit": 0.59, "try read": 0.28,
		"try reentrant": 0.33, "try write": 0.4, "unlock": 3.1, "write": 0.84,
	},
	Faults: map[string]float64{
		"busy": 0.15, "close": 0.18, "connections killed": 0.32, "crash": 0.15, "delete": 0.38,
		"fell back to a copy": 0.27, "half a reply": 0.36, "hung connection request": 2.3, "late request": 4.2,
		"loading": 0.17, "lost reply": 1.6, "lost request": 2.4, "one-way partition": 0.21, "other type": 0.38,
		"out of memory": 0.17, "partition": 0.2, "pause": 1.6, "read-only": 0.16, "refused connection": 11,
		"refused: NOSCRIPT": 4.7, "refused: busy": 1.7, "refused: loading": 2.1, "refused: out of memory": 0.48,
		"refused: read-only": 1.8, "reply in a partition": 0.24, "request in a partition": 0.15,
		"request while down": 0.53, "restarted without data": 0.31, "scripts flushed": 0.17,
		"server clock ahead": 0.4, "server clock back": 0.33, "server restarted": 0.38, "slow reply": 2.2,
		"subscriptions killed": 0.23, "twice": 0.28,
	},
	Losses: map[string]float64{
		"its deadline passed": 0.15, "its renewals failed": 0.2, "the store has it no more": 0.5,
	},
	Checks: map[string]float64{
		"answer": 11, "close": 1.1, "deadline": 4.3, "downgraded": 0.12, "entered": 0.33, "exclusion": 0.46,
		"holding": 12, "left": 0.4, "left inside": 0.25, "loss": 0.85, "renewal": 5.3, "sent": 5.3, "served": 0.58,
		"several": 0.15, "stats": 23, "tidy": 15, "token": 4.2, "told": 0.31, "turned": 0.078, "unlock": 3.2,
		"waiting": 0.097,
	},
}
