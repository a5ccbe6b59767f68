import NodeCore
import Partitions

extension SwarmDraw {
    /// Devices with an address at a push service, and the bounds on the way there.
    mutating func drawPushes() {
        let isPushed = roll(3) == 0
        add("pushed-per-mille", 0, value: isPushed ? [even(1, 300), even(300, 999), 1000][Int(roll(3))] : 0) {
            $0.pushedPerMille = $1
        }
        add("push-failures", 0, value: rate() * 9 / 10) { $0.pushFailPerMille = $1 }
        add("push-gone", 0, value: roll(3) == 0 ? even(1, 100) : 0) { $0.pushGonePerMille = $1 }
        func bound(_ name: String, _ plain: Int, apply: @escaping @Sendable (inout Options, Int) -> Void) {
            let value = roll(2) == 0 ? magnitude(1, UInt64(plain)) : UInt64(plain)
            add(name, UInt64(plain), value: value) { apply(&$0, Int($1)) }
        }
        let partition = PartitionOptions(partitionCount: 1)
        let pushes = PushBounds()
        bound("pushes-at-once", partition.pushesAtOnce) { $0.partition.pushesAtOnce = $1 }
        bound("push-looks", partition.pushLooksAtOnce) { $0.partition.pushLooksAtOnce = $1 }
        bound("push-grace-ms", Int(partition.pushGrace.milliseconds)) {
            $0.partition.pushGrace = .milliseconds(UInt64($1))
        }
        bound("attempts", partition.momentaryMax) { $0.partition.momentaryMax = $1 }
        bound("attempt-bytes", partition.momentaryBytesMax) { $0.partition.momentaryBytesMax = $1 }
        bound("origin-at-once", pushes.atOnce) { $0.pushes.atOnce = $1 }
        bound("origin-waiting", pushes.waitingMax) { $0.pushes.waitingMax = $1 }
        bound("origin-proven-ms", Int(pushes.provenFor.milliseconds)) {
            $0.pushes.provenFor = .milliseconds(UInt64($1))
        }
        bound("listed-at-once", partition.listedAtOnce) { $0.partition.listedAtOnce = $1 }
        bound("push-attempts", partition.pushAttemptsMax) { $0.partition.pushAttemptsMax = $1 }
        bound("origin-failures", pushes.failuresMax) { $0.pushes.failuresMax = $1 }
        let plain = Options(seed: seed)
        let client = PushClientBounds()
        bound("client-requests", client.allMax) { $0.pushClient.allMax = $1 }
        bound("client-origin", client.perOriginMax) { $0.pushClient.perOriginMax = $1 }
        bound("client-waiting", client.waitingMax) { $0.pushClient.waitingMax = $1 }
        add("web-services", 3, value: even(1, 4)) { $0.webPushCount = Int($1) }
        bound("tokens-waiting", plain.accessTokens.waitingMax) { $0.accessTokens.waitingMax = $1 }
        add("token-seconds", 3600, value: roll(2) == 0 ? even(2, 12) : 3600) { $0.accessTokenSeconds = $1 }
        add("tokens-refused", 0, value: roll(2) == 0 ? even(1, 300) : 0) { $0.tokensRefusedPerMille = $1 }
        bound("apple-streams", plain.apns.streamsMax) { $0.apns.streamsMax = $1 }
        bound("apple-allows", plain.appleStreams) { $0.appleStreams = $1 }
        bound("apple-connections", plain.apns.connectionsPerPoolMax) { $0.apns.connectionsPerPoolMax = $1 }
        bound("apple-waiting", plain.apns.waitingMax) { $0.apns.waitingMax = $1 }
        bound("apple-tries", plain.apns.triesMax) { $0.apns.triesMax = $1 }
        add("push-moods", 0, value: roll(2) == 0 ? even(50, 800) : 0) { $0.pushMoodsPerMille = $1 }
        add("push-denials", 0, value: roll(2)) { $0.deniesDevices = $1 == 1 }
        add("push-unexplained", 0, value: roll(3) == 0 ? even(1, 200) : 0) { $0.pushUnexplainedPerMille = $1 }
        bound("push-unexplained-min", pushes.unexplainedMin) { $0.pushes.unexplainedMin = $1 }
        let unreachable = partition.unreachableMax?.milliseconds ?? 0
        add("unreachable-ms", unreachable, value: roll(2) == 0 ? even(1, 20_000) : unreachable) {
            $0.partition.unreachableMax = .milliseconds($1)
        }
        add("address-kinds", 1, value: roll(2) == 0 ? even(2, 3) : 1) { $0.addressKindsMax = Int($1) }
        add("services-gap-ms", \.servicesGapMax, value: roll(2) == 0 ? even(300, 8000) : 0)
        add("apple-odd", 0, value: roll(2) == 0 ? even(1, 200) : 0) { $0.appleOddPerMille = $1 }
    }
}
