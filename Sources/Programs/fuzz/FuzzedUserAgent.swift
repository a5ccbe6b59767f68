import FCMAPI
import HTTPMessages
import Model
import RegistrationIDs
import Routing

/// What user agents and their senders send, for a fuzzer: the messages of a connection, and a sender's POST
/// with its token.
enum FuzzedUserAgent {
    private static let project = Project(id: "p", number: ProjectNumber(1))
    private static let device = Registration(
        project: project.number, partition: PartitionID(0), index: DeviceIndex(1), nonce: 1, key: 1)
    private static let keys = [RegistrationKey(number: 1, material: Array(1...32))]

    // Safe: one thread; libFuzzer calls from the main thread only.
    nonisolated(unsafe) private static let api: API = {
        let api = API(settings: APISettings(), keys: RegistrationKeys(keys))
        var directory = Directory()
        directory.add(project)
        directory.pushServices[project.number] = PushServiceProject(.init(origin: "https://a"))
        api.directory = directory
        return api
    }()

    /// The first byte chooses the reader.
    static func run(_ input: [UInt8]) {
        guard let choice = input.first else { return }
        let bytes = Array(input.dropFirst())
        switch choice % 3 {
        case 0: session(bytes)
        case 1: post(bytes)
        default: _ = api.keys.openAddress(bytes)
        }
    }

    /// Each line is a message. The core answers each operation immediately, and hands an event over after
    /// each message. A session that has ended must ask for nothing more but for the end of its device.
    private static func session(_ bytes: [UInt8]) {
        var session = api.pushSession(of: project)
        var position: UInt64 = 0
        var hasEnded = false
        for line in bytes.split(separator: 0x0A, maxSplits: 64) {
            var effects: [PushSession.Effect] = []
            position += 1
            let now = MonotonicTime(nanoseconds: position * 10_000_000_000)
            api.receive(Array(line), by: &session, now: now, into: &effects)
            precondition(!hasEnded || effects.isEmpty, "a session that has ended goes on")
            let id = EventID(position: Position(position), history: 1)
            _ = session.deliver(position % 3 == 0 ? nil : Array(line), id, into: &effects)
            var steps = 0
            while !effects.isEmpty {
                steps += 1
                precondition(steps < 1000, "a session asks without end")
                var next: [PushSession.Effect] = []
                for effect in effects {
                    if case .close = effect { hasEnded = true }
                    answer(effect, of: &session, into: &next)
                }
                effects = next
            }
        }
    }

    private static func answer(
        _ effect: PushSession.Effect, of session: inout PushSession, into next: inout [PushSession.Effect]
    ) {
        switch effect {
        case .attach: session.open(into: &next)
        case .operation(.register, let work):
            session.finish(
                work,
                .registered(
                    NewRegistration(registration: device, secret: 1, created: WallTime(milliseconds: 1))),
                into: &next)
        case .operation(.changeSubscriptions, let work):
            session.finish(work, .changes([.changed(Day(1))]), into: &next)
        case .operation(_, let work): session.finish(work, .done, into: &next)
        case .close, .send, .drained, .note: break
        }
    }

    /// Up to the first line break the sender's field, then the body.
    private static func post(_ bytes: [UInt8]) {
        let field = bytes.prefix { $0 != 0x0A }
        let address = ChannelAddress(
            device: device, channel: ChannelID(high: 1, low: 2), senderKeyHash: Array(repeating: 1, count: 32)
        )
        var fields = HTTPFields()
        fields.append(name: "authorization".utf8, value: field)
        fields.append(name: "ttl".utf8, value: "1".utf8)
        fields.append(name: "content-encoding".utf8, value: "aes128gcm".utf8)
        let request = HTTPRequest(
            method: .post, target: Array("/push/v1/".utf8) + api.keys.seal(address), fields: fields,
            body: Array(bytes.dropFirst(field.count + 1)))
        let action = api.route(
            request, isAdmin: false, now: WallTime(milliseconds: 1), at: .zero,
            id: MessageID(time: 1, random: 1)
        ).action
        guard case .respond(let response) = action else { preconditionFailure("a stranger's token counts") }
        precondition(response.status == 403 || response.status == 413)
    }
}
