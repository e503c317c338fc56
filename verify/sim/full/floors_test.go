package full

import "github.com/leasewheel/leasewheel/verify/sim"

// usual is about half of what a schedule does on average over all classes, or less.
var usual = sim.Floors{
	Operations: map[string]float64{
		"acquire": 16, "batch": 1.3, "downgrade": 0.1, "enter again": 0.26, "executed": 72, "got": 2.7,
		"grant": 3.2, "hello": 16, "lock": 2.3, "majority": 0.65, "multi": 0.2, "permit": 1.1, "ping": 16,
		"read": 0.57, "reentrant": 0.66, "release": 7, "renew": 2.3, "renewal without an answer": 0.78,
		"renewed": 3.2, "shared_acquire": 16, "shared_release": 7, "shared_renew": 2.7, "signal": 1,
		"subscribe": 2.8, "try batch": 0.57, "try lock": 0.96, "try multi": 0.079, "try permit": 0.48,
		"try read": 0.24, "try reentrant": 0.31, "try write": 0.34, "unknown": 2, "unlock": 2.6, "write": 0.77,
	},
	Faults: map[string]float64{
		"busy": 0.12, "close": 0.17, "connections killed": 0.25, "crash": 0.15, "delete": 0.42,
		"fell back to a copy": 0.25, "half a reply": 0.49, "hung connection request": 2.4, "late request": 5.6,
		"loading": 0.14, "lost reply": 1.7, "lost request": 3.4, "one-way partition": 0.17, "other type": 0.43,
		"out of memory": 0.15, "partition": 0.19, "pause": 1.3, "read-only": 0.15, "refused connection": 11,
		"refused: NOSCRIPT": 3, "refused: busy": 1.5, "refused: loading": 2, "refused: out of memory": 0.45,
		"refused: read-only": 1.6, "reply in a partition": 0.3, "request in a partition": 0.22,
		"request while down": 0.5, "restarted without data": 0.29, "scripts flushed": 0.12,
		"server clock ahead": 0.38, "server clock back": 0.36, "server restarted": 0.36, "slow reply": 3.2,
		"subscriptions killed": 0.15, "twice": 0.27,
	},
	Losses: map[string]float64{
		"deadline passed": 0.11, "renewals failed": 0.2, "no longer owned": 0.41,
	},
	Checks: map[string]float64{
		"answer": 10, "close": 1, "deadline": 3.6, "downgrade": 0.1, "ends": 6, "reentry": 0.26, "exclusion": 0.34,
		"holding": 10, "order": 1.9, "left": 0.4, "inner unlock": 0.2, "loss": 0.72, "hand-over": 1.9, "renewal": 4.4, "renewal creates nothing": 4, "sent": 5,
		"served": 0.57, "several": 0.12, "stats": 19, "leak": 9.9, "token": 5.4, "told": 0.27, "downgraded on the server": 0.07,
		"unlock": 2.7, "waiting": 0.059,
	},
}

// wideFloors are the floors of the wide classes.
var wideFloors = []sim.Floors{
	{Operations: map[string]float64{"extreme options": 1, "lock": 2, "signal": 1}, Checks: map[string]float64{"holding": 12, "answer": 6}},
	{Operations: map[string]float64{"lock": 5, "try lock": 2}, Faults: map[string]float64{"late request": 50, "slow reply": 40}, Checks: map[string]float64{"leak": 20}},
	{Operations: map[string]float64{"lock": 10, "renewed": 30}, Faults: map[string]float64{"connections dropped in silence": 0.7}},
	{Operations: map[string]float64{"lock": 3, "renewed": 7, "signal": 2}, Faults: map[string]float64{"slow reply": 80}},
	{Operations: map[string]float64{"lock": 4, "signal": 3}, Faults: map[string]float64{"forged signal": 2000}},
	{Operations: map[string]float64{"majority": 15}, Faults: map[string]float64{"copies lost": 8}, Losses: map[string]float64{"no longer owned": 4}},
	{Operations: map[string]float64{"lock": 10, "refused for memory": 12}, Faults: map[string]float64{"refused: out of memory": 19}},
	{Operations: map[string]float64{"lock": 2}, Faults: map[string]float64{"blocking dial": 9, "close": 1.5, "slow dials": 2}},
	{Operations: map[string]float64{"lock": 2, "kept": 0.5}, Checks: map[string]float64{"kept": 0.3, "rest of MinHold": 0.5}},
}
