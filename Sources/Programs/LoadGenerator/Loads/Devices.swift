import CEpoll
import Glibc

/// Many short texts in one block of memory, so that ten million tokens do not need ten million allocations.
struct TextTable {
    private var bytes: [UInt8] = []
    private var ends: [Int] = []

    var count: Int { ends.count }

    mutating func append(_ text: UnsafeRawBufferPointer) {
        bytes.append(contentsOf: text)
        ends.append(bytes.count)
    }

    private func range(_ index: Int) -> Range<Int> { (index == 0 ? 0 : ends[index - 1])..<ends[index] }

    func append(_ index: Int, to out: inout [UInt8]) { out.append(contentsOf: bytes[range(index)]) }

    subscript(_ index: Int) -> String { String(decoding: bytes[range(index)], as: UTF8.self) }
}

/// Devices of a project: their tokens, for senders, and their credentials, for listening.
struct Devices {
    var tokens = TextTable()
    var credentials = TextTable()

    /// Registers `count` devices over a few connections.
    static func register(_ count: Int, at target: Target, on poller: Poller) throws -> (Devices, LoadReport) {
        let source = Registrar(count: count, head: target.registerHead)
        let pump = try RequestPump(
            poller, to: target.address, connections: 8, streams: min(64, max(1, count / 8)),
            keepsBodies: true,
            source: source)
        let watch = Stopwatch(target.process)
        pump.start()
        let isDone = poller.run(seconds: 3600) { pump.active == 0 }
        var report = LoadReport("register", unit: "device")
        watch.read(into: &report)
        report.operations = source.devices.tokens.count
        report.statuses = pump.statuses
        report.latencies = [("answer", pump.latency)]
        pump.hangUp()
        guard isDone, source.devices.tokens.count == count else {
            throw LoadError(
                "only \(source.devices.tokens.count) of \(count) devices were registered. \(pump.firstRefusal ?? "")"
            )
        }
        return (source.devices, report)
    }
}

private final class Registrar: RequestSource {
    private let head: RequestHead
    private var remaining: Int
    var devices = Devices()

    init(count: Int, head: RequestHead) {
        self.head = head
        remaining = count
    }

    func next(_ index: Int) -> (head: RequestHead, body: [UInt8])? {
        guard remaining > 0 else { return nil }
        remaining -= 1
        return (head, Array("{}".utf8))
    }

    func answered(_ index: Int, status: Int, body: [UInt8]) {
        guard status == 200 else { return }
        body.withUnsafeBytes { bytes in
            guard let token = Registrar.field("\"token\":", in: bytes),
                let credential = Registrar.field("\"credential\":", in: bytes)
            else { return }
            devices.tokens.append(token)
            devices.credentials.append(credential)
        }
    }

    /// The text between the next two quotes behind a key.
    static func field(_ key: StaticString, in bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard let base = bytes.baseAddress,
            let found = memmem(base, bytes.count, key.utf8Start, key.utf8CodeUnitCount)
        else { return nil }
        let rest = UnsafeRawBufferPointer(
            rebasing: bytes[(UnsafeRawPointer(found) - base + key.utf8CodeUnitCount)...])
        guard let open = rest.firstIndex(of: 0x22), let close = rest[(open + 1)...].firstIndex(of: 0x22)
        else {
            return nil
        }
        return UnsafeRawBufferPointer(rebasing: rest[(open + 1)..<close])
    }
}

extension Target {
    /// Creates a device and subscribes it to a topic.
    public func subscribeOne(to topic: String) throws {
        let poller = try Poller()
        let (devices, _) = try Devices.register(1, at: self, on: poller)
        _ = try Subscriber.run(
            [Batch(topic: topic, first: 0, count: 1)], of: devices, at: self, on: poller, connections: 1,
            streams: 1)
    }
}
