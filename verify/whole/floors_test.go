package whole

import "github.com/leasewheel/leasewheel/verify/part"

// usual is half of what a schedule does on average over all classes.
var usual = part.Floors{
	Operations: map[string]float64{
		"acquire": 24, "enter again": 0.72, "executed": 64, "got": 3.3, "grant": 4.8, "hello": 15, "lock": 6.4,
		"multi": 0.72, "ping": 28, "reentrant": 1.9, "release": 20, "released": 19, "renew": 5.8,
		"renewal without an answer": 1.3, "renewed": 4.1, "signal": 1.3, "subscribe": 4.3, "try lock": 2.7,
		"try multi": 0.31, "try reentrant": 0.81, "unlock": 3.3,
	},
	Faults: map[string]float64{
		"busy": 0.17, "close": 0.21, "connections killed": 0.36, "crash": 0.14, "delete": 0.47,
		"fell back to a copy": 0.34, "half a reply": 0.34, "hung connection request": 2.5, "late request": 5.2,
		"loading": 0.18, "lost reply": 2.1, "lost request": 2.8, "one-way partition": 0.24, "other type": 0.46,
		"out of memory": 0.16, "partition": 0.24, "pause": 1.9, "read-only": 0.19, "refused connection": 15,
		"refused: NOSCRIPT": 4.6, "refused: busy": 2.3, "refused: loading": 4, "refused: out of memory": 0.53,
		"refused: read-only": 2.7, "reply in a partition": 0.25, "request in a partition": 0.14,
		"request while down": 0.68, "restarted without data": 0.36, "scripts flushed": 0.17,
		"server clock ahead": 0.48, "server clock back": 0.41, "server restarted": 0.48, "slow reply": 3.1,
		"subscriptions killed": 0.23, "twice": 0.24,
	},
	Losses: map[string]float64{
		"its deadline passed": 0.19, "its renewals failed": 0.3, "the store has it no more": 0.57,
	},
	Checks: map[string]float64{
		"answer": 12, "close": 1.3, "deadline": 4.7, "entered": 0.72, "exclusion": 0.05, "holding": 13,
		"left": 0.45, "left inside": 0.55, "loss": 1.1, "renewal": 5.9, "sent": 5.8, "served": 0.8,
		"several": 0.36, "stats": 26, "tidy": 24, "token": 4.8, "told": 0.35, "unlock": 3.5, "waiting": 0.26,
	},
}
