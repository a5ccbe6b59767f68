import Model
import Testing

@testable import Partitions

/// The senders of a user agent have shares of what may wait for it (rule: shares-of-a-device).
@Suite("The messages of several senders that wait for one device")
struct ShareTests {
    private func harness() -> PartitionHarness {
        PartitionHarness(count: 1) {
            $0.delivery.waitingMax = 10
            $0.delivery.collapsibleMax = 3
            $0.delivery.passDepth = 4
            $0.listenersReturn = .zero
        }
    }

    /// A message of the share of this name; without a name, one that names no share.
    private func send(
        _ text: String, from share: String, _ key: String = "", to device: Registration,
        _ harness: PartitionHarness
    ) {
        var message = harness.envelope(text)
        (message.collapseKey, message.share) = (Array(key.utf8), Array(share.utf8))
        _ = harness.request(.sendToDevice(nil, device, message), of: device.partition)
    }

    /// What the device gets when it listens.
    private func events(
        _ device: (Registration, DeviceMAC), _ harness: PartitionHarness, stream: UInt64 = 1
    ) -> [String] {
        harness.settle()
        _ = harness.takeEvents()
        harness.listen(device.0, device.1, stream: stream)
        #expect(harness.partitions[0].brokenInvariant(isWhole: true) == nil)
        return harness.takeEvents().filter { $0 != "attached" }
    }

    @Test("a sender of many loses its own, and the others keep theirs", arguments: [0, 1, 2])
    func greedy(owners: Int) throws {
        let harness = harness()
        let device = try #require(harness.register(in: 0))
        for number in 1...3 { send("quiet \(number)", from: "q", to: device.0, harness) }
        for number in 1...7 { send("loud \(number)", from: "l", to: device.0, harness) }
        if owners == 1 { try harness.succeed(0) }
        if owners == 2 { try harness.succeedFromSnapshot(0) }
        send("loud 8", from: "l", to: device.0, harness)
        send("quiet 4", from: "q", to: device.0, harness)
        #expect(
            events(device, harness) == ["quiet 1", "quiet 2", "quiet 3", "deleted", "loud 8", "quiet 4"])
    }

    @Test("a message of a quiet sender takes the place of the loud sender's, also of one without a name")
    func quiet() throws {
        let harness = harness()
        let device = try #require(harness.register(in: 0))
        for number in 1...9 { send("\(number)", from: "", to: device.0, harness) }
        send("a", from: "a", to: device.0, harness)
        send("b", from: "b", to: device.0, harness)
        #expect(events(device, harness) == ["a", "deleted", "b"])
    }

    @Test("of two with as many the one that sends loses its own")
    func equal() throws {
        let harness = harness()
        let device = try #require(harness.register(in: 0))
        for number in 1...5 {
            send("a\(number)", from: "a", to: device.0, harness)
            send("b\(number)", from: "b", to: device.0, harness)
        }
        send("b6", from: "b", to: device.0, harness)
        #expect(events(device, harness) == ["a1", "a2", "a3", "a4", "a5", "deleted", "b6"])
    }

    @Test("whose keys collapse replace their own, and past the bound those of the sender with most keys")
    func keys() throws {
        let harness = harness()
        let device = try #require(harness.register(in: 0))
        send("a one", from: "a", "k", to: device.0, harness)
        for number in 1...4 { send("b \(number)", from: "b", "k\(number)", to: device.0, harness) }
        #expect(events(device, harness) == ["a one", "b 3", "b 4"])
        send("a two", from: "a", "k", to: device.0, harness)
        send("b k", from: "b", "k", to: device.0, harness)
        #expect(events(device, harness, stream: 2).suffix(3) == ["b 4", "a two", "b k"])
    }

    @Test("without a share are dropped together, as before")
    func unshared() throws {
        let harness = harness()
        let device = try #require(harness.register(in: 0))
        let other = try #require(harness.register(in: 0))
        send("elsewhere", from: "a", to: other.0, harness)
        for number in 1...11 { send("\(number)", from: "", to: device.0, harness) }
        #expect(events(device, harness) == ["deleted", "11"])
    }

    @Test("of one sender alone are dropped together")
    func alone() throws {
        let harness = harness()
        let device = try #require(harness.register(in: 0))
        for number in 1...11 { send("\(number)", from: "a", to: device.0, harness) }
        #expect(events(device, harness) == ["deleted", "11"])
    }
}
