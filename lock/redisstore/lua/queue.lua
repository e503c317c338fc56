-- Functions for the queue of a lock. KEYS 1 to 4 as in tokens.lua.
--
-- requires: tokens, arrival
--
-- Scripts return their reply by reply, because a server may take no message from a script.
--
-- Bound: pop_live_waiter and hand_over remove up to MAX_POPPED places. The other functions
-- execute at most seven commands. A message has up to MAX_STATE bytes.

-- The latest end of a lease or a place, in ms: a moment in the year 2286. A score can be any
-- number, even infinity, but an expiry cannot.
local LATEST = 1e13

-- The owner of a lock that was released and stays taken by nobody. No owner contains a brace.
local KEPT = '{kept}'

-- One script removes at most this many expired places from a queue. Later scripts continue.
local MAX_POPPED = 1000

-- The longest state with its token and number, in bytes. Whatever is longer is no state.
local MAX_STATE = 66000

-- The channels and the messages that the server did not take.
local unsent = {}

-- all_places_expired returns whether every place has expired. It returns false if the user has
-- no right to read the places.
local function all_places_expired(now)
  local first = redis.pcall('ZRANGEBYSCORE', KEYS[4], '(' .. format_int(now), '+inf', 'LIMIT', 0, 1)
  return not first.err and #first == 0
end

-- delete_abandoned_queue deletes the queue of another family of modes if every place in it has
-- expired. Its length is the reply of the command that reads the length of a queue of that family.
local function delete_abandoned_queue(length)
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  if type(length) == 'number' and all_places_expired(now) then
    redis.call('DEL', KEYS[3], KEYS[4])
  end
end

-- has_waiters returns whether the queue has owners. It fails if the queue or the places have a
-- wrong type, before the script writes to them.
local function has_waiters()
  local length = redis.pcall('LLEN', KEYS[3])
  if type(length) ~= 'number' then
    delete_abandoned_queue(redis.pcall('ZCARD', KEYS[3]))
    length = redis.call('LLEN', KEYS[3])
  end
  return length > 0 and redis.call('ZCARD', KEYS[4]) >= 0
end

-- set_place gives an owner a place that lasts for length ms, or extends the one that it has, which keeps its
-- time of arrival; see arrival.lua. No owner contains a brace.
local function set_place(owner, now, length)
  local score = string.format('%.17g', -length - (arrival_of(owner) or now) / 1e13)
  redis.call('ZADD', KEYS[4], format_int(now + length), owner, score, owner .. '}')
end

-- remove_place removes the place of an owner. It returns 0 if the owner had none.
local function remove_place(owner)
  return redis.call('ZREM', KEYS[4], owner, owner .. '}')
end

-- expired_places returns up to limit owners whose places have expired.
local function expired_places(now, limit)
  return redis.call('ZRANGEBYSCORE', KEYS[4], 0, format_int(now), 'LIMIT', 0, limit)
end

-- remaining_place returns the ms until a place expires, or 0 if the owner has none. The result
-- never exceeds the length of the place, even if the clock was set back in the meantime.
local function remaining_place(owner, now)
  local remaining = math.min(tonumber(redis.call('ZSCORE', KEYS[4], owner) or 0), LATEST) - now
  if remaining <= 0 then
    return 0
  end
  local length = redis.call('ZSCORE', KEYS[4], owner .. '}')
  if length then
    remaining = math.min(remaining, -tonumber(length))
  end
  return math.max(math.floor(remaining), 1)
end

-- allow_writes executes a write that changes nothing. A server that is out of memory refuses
-- only the first write of a script, and only if that write may need memory. After
-- allow_writes, an owner that has a place can therefore extend it.
local function allow_writes()
  redis.call('ZREM', KEYS[4], '')
end

-- pop_live_waiter removes the first owner with a live place from the queue, and all owners
-- before it. It returns that owner and the ms until its place expires. It returns nil if there
-- is no such owner, and nil, nil, true if it has removed MAX_POPPED owners without finding one.
local function pop_live_waiter(now)
  for popped = 1, MAX_POPPED do
    local owner = redis.call('LPOP', KEYS[3])
    if not owner then
      return nil
    end
    local remaining = remaining_place(owner, now)
    remove_place(owner)
    if remaining > 0 then
      return owner, remaining
    end
    if popped == 1 and all_places_expired(now) then
      redis.call('DEL', KEYS[3], KEYS[4])
      return nil
    end
  end
  return nil, nil, true
end

-- signal tells an owner that it was granted the lock with a token. Token 0 asks the owner to
-- poll the server. The channel is the prefix of the keys and the owner up to its last colon.
-- The message is "tag token proof": the tag names the owner, and the proof is a digest of
-- "owner token". The message does not show the owner, and only a sender that knows the owner
-- can make one. Correctness does not depend on signals, so the right to publish may be missing.
-- The client publishes what the server does not take.
--
-- An owner with the mark "{." asks for the state of the key, KEYS 6; see save.lua. Its message of a grant
-- is "tag token proof state", with a proof of "owner token digest". The state is empty if there is none.
-- Without KEYS 6 the message has no state, and the waiter asks again. The scripts of shared locks have
-- another key there, but their owners have no mark.
local function signal(owner, token)
  local prefix = string.sub(KEYS[1], 1, string.find(KEYS[1], '{', 1, true) - 1)
  local client = string.match(owner, '^(.*):') or owner
  local tag = string.sub(redis.sha1hex(owner), 1, 16)
  local proven, told = owner .. ' ' .. token, ''
  if token ~= '0' and KEYS[6] and string.find(owner, '{.', 1, true) then
    local state = redis.pcall('GET', KEYS[6])
    if not state or type(state) == 'string' and #state <= MAX_STATE and string.find(state, '^%d+ %d+ ') then
      state = state or ''
      proven, told = proven .. ' ' .. redis.sha1hex(state), ' ' .. state
    end
  end
  local channel, message = prefix .. client, tag .. ' ' .. token .. ' ' .. redis.sha1hex(proven) .. told
  local sent = redis.pcall('PUBLISH', channel, message)
  if type(sent) == 'table' then
    unsent[#unsent + 1] = channel
    unsent[#unsent + 1] = message
  end
end

-- reply returns the reply of a script with the given result: {'unsent', result, {channel, message, ...}} if
-- the server did not take messages.
local function reply(result)
  if #unsent == 0 then
    return result
  end
  return {'unsent', result, unsent}
end

-- hand_over grants the lock to the first live waiter, for the rest of its place. It deletes the
-- lock if it finds none. If it has stopped at MAX_POPPED owners, the next poll continues.
local function hand_over()
  if not has_waiters() then
    redis.call('DEL', KEYS[1])
    return
  end
  local token, now = next_token()
  local owner, remaining = pop_live_waiter(now)
  if not owner then
    redis.call('DEL', KEYS[1])
    return
  end
  signal(owner, grant(owner, token, now, remaining))
end

