-- Publishes a message, as scripts do that hand a lock over, so that a subscriber learns whether it gets those.
--
-- KEYS 1 any key; not touched
-- ARGV 1 the channel
--      2 the message
--
-- Returns 1, or as reply of queue.lua if the server did not take the message.
--
-- Bound: one command.

local channel, message = ARGV[1], ARGV[2]
local sent = redis.pcall('PUBLISH', channel, message)
if type(sent) == 'table' then
  return {'unsent', 1, {channel, message}}
end
return 1
