#!/usr/bin/env bash
# The bounds of one address that has only an app's key or sends bad assertions, and the bound of a project's devices. Past a bound
# the server answers 429 and names the bound, and still serves other addresses and callers with a bearer key.
. "$(dirname "$0")/common.sh"
metrics=$(free_port)
while [ "$metrics" = "$port" ]; do metrics=$(free_port); done
"$unprivileged" "$tidecast" server --data "$data" --listen "127.0.0.1:$port" --listen-metrics "127.0.0.1:$metrics" --proxy 127.0.0.0/8 \
  --address-registrations-per-minute 3 --address-changes-per-minute 2 --address-calls-per-minute 2 \
  --address-bad-assertions-per-minute 4 2>> "$log" &
server=$!
wait_ready "$url" || fail "the server was not ready within 10 s"
"$unprivileged" "$tidecast" project create demo --service-account "$work/demo.json" --data "$data" > /dev/null
key=$("$unprivileged" "$tidecast" project key create demo --kind device --data "$data")
bearer=$("$unprivileged" "$tidecast" project key create demo --kind bearer --data "$data")

# answers STATUS PATH OPTION…: a POST to PATH must be answered with STATUS; the body goes to $work/answer.
answers() {
  local wanted=$1 path=$2 said
  shift 2
  said=$(curl -s -o "$work/answer" -w '%{http_code}' --max-time 20 -X POST "$url$path" "$@")
  [ "$said" = "$wanted" ] || fail "$path $* was answered $said: $(cat "$work/answer")"
}
says() { grep -q "$1" "$work/answer" || fail "it does not say $1: $(cat "$work/answer")"; }
app=(-H "x-goog-api-key: $key" -d '{}')
registrations=/v1/projects/demo/registrations

for _ in 1 2 3; do answers 200 $registrations "${app[@]}" -H 'X-Forwarded-For: 192.0.2.1'; done
answers 429 $registrations "${app[@]}" -H 'X-Forwarded-For: 192.0.2.1'
says RegistrationsPerMinutePerAddress
says RESOURCE_EXHAUSTED
# A client may send an X-Forwarded-For of its own, and a proxy appends the client's address: the server must count the last one.
answers 429 $registrations "${app[@]}" -H 'X-Forwarded-For: 192.0.2.99, 192.0.2.1'
answers 200 $registrations "${app[@]}" -H 'X-Forwarded-For: 192.0.2.2'
answers 200 $registrations -H "authorization: Bearer $bearer" -d '{}' -H 'X-Forwarded-For: 192.0.2.1'
echo "ok: registrations of one address"

# The server must also count a change that it refuses for a wrong credential.
name=$(curl -s -X POST "$url$registrations" -H "authorization: Bearer $bearer" -d '{}' | sed -n 's/.*"name": *"\([^"]*\)".*/\1/p')
[ -n "$name" ] || fail "no device was registered"
changed=/v1/$name/topicSubscriptions/news:subscribe
wrong=(-H 'authorization: Bearer AAAAAAAAAAAAAAAAAAAAAA' -d '{}')
for _ in 1 2; do answers 403 "$changed" "${wrong[@]}" -H 'X-Forwarded-For: 192.0.2.1'; done
answers 429 "$changed" "${wrong[@]}" -H 'X-Forwarded-For: 192.0.2.1'
says SubscriptionChangesPerMinutePerAddress
answers 403 "$changed" "${wrong[@]}" -H 'X-Forwarded-For: 192.0.2.2'
answers 200 "$changed" -H "authorization: Bearer $bearer" -d '{}' -H 'X-Forwarded-For: 192.0.2.1'
echo "ok: subscription changes of one address"

acknowledged=/v1/$name:acknowledge
event=(-H 'authorization: Bearer AAAAAAAAAAAAAAAAAAAAAA' -d '{"eventId": "000660bdeed60db8.2b40"}')
for _ in 1 2; do answers 403 "$acknowledged" "${event[@]}" -H 'X-Forwarded-For: 192.0.2.1'; done
answers 429 "$acknowledged" "${event[@]}" -H 'X-Forwarded-For: 192.0.2.1'
says DeviceCallsPerMinutePerAddress
answers 403 "$acknowledged" "${event[@]}" -H 'X-Forwarded-For: 192.0.2.2'
echo "ok: other calls of devices of one address"

bad=(-d 'grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=a.b.c')
for _ in 1 2 3 4; do answers 400 /token "${bad[@]}" -H 'X-Forwarded-For: 192.0.2.1'; done
answers 429 /token "${bad[@]}" -H 'X-Forwarded-For: 192.0.2.1'
says 'Too many assertions'
answers 400 /token "${bad[@]}" -H 'X-Forwarded-For: 192.0.2.2'
echo "ok: refused assertions of one address"

"$unprivileged" "$tidecast" project quota demo --devices 8 --data "$data" | contains 'devices *8' || fail "the limit is not shown"
for _ in 1 2; do answers 200 $registrations -H "authorization: Bearer $bearer" -d '{}'; done
answers 429 $registrations -H "authorization: Bearer $bearer" -d '{}'
says DevicesPerProject
"$unprivileged" "$tidecast" project quota demo --devices 9 --data "$data" > /dev/null
answers 200 $registrations -H "authorization: Bearer $bearer" -d '{}'
echo "ok: devices of a project"

operator=$("$unprivileged" "$tidecast" key create --kind operator --role admin --name far --data "$data")
curl -sf "$url/admin/projects" -d '{"id": "other"}' -H "authorization: Bearer $operator" -H 'X-Forwarded-For: 192.0.2.7' \
  > /dev/null || fail "an operator's token was refused"
curl -s "$url/admin/projects" -H 'authorization: Bearer tco_wrong' -H 'X-Forwarded-For: 192.0.2.8' > /dev/null
"$unprivileged" "$tidecast" audit --data "$data" > "$work/audit"
for address in 192.0.2.7 192.0.2.8; do grep -q "$address" "$work/audit" || fail "no $address in $(cat "$work/audit")"; done
echo "ok: operators behind a proxy"

curl -s "http://127.0.0.1:$metrics/metrics" | contains 'tidecast_refused_by_address_total{what="registrations"} 2' || fail "registrations are not counted"
curl -s "http://127.0.0.1:$metrics/metrics" | contains 'tidecast_refused_by_address_total{what="assertions"} 1' || fail "assertions are not counted"
curl -s "http://127.0.0.1:$metrics/metrics" | contains 'tidecast_refused_by_address_total{what="changes"} 1' || fail "changes are not counted"
curl -s "http://127.0.0.1:$metrics/metrics" | contains 'tidecast_refused_by_address_total{what="calls"} 1' || fail "calls are not counted"
stop_server
echo "ok: metrics"
