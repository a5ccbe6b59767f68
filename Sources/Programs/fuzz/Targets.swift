import Bytes
import Edge
import FCMAPI
import HTTPMessages
import Journal
import Membership
import Model
import Ownership
import Partitions
import PeerLink
import RegistrationIDs
import Routing

/// The code that gets bytes from outside. The first byte of an input chooses the target, so that a single
/// binary fuzzes all targets. A corpus whose inputs begin with the same byte stays with one target.
enum Targets {
    // Safe: one thread; libFuzzer calls from the main thread only.
    nonisolated(unsafe) private static let api: API = {
        var settings = APISettings()
        settings.isDev = true
        settings.signingKey = Array(repeating: 1, count: 32)
        let api = API(
            settings: settings, keys: RegistrationKeys([RegistrationKey(number: 1, material: Array(1...32))]))
        var directory = Directory()
        directory.add(Project(id: "p", number: ProjectNumber(1)))
        directory.accounts["k"] = .init(project: ProjectNumber(1), email: "e", publicKey: "")
        api.directory = directory
        return api
    }()

    static func run(_ input: UnsafeBufferPointer<UInt8>) {
        guard let choice = input.first else { return }
        let bytes = Array(input.dropFirst())
        switch choice % 16 {
        case 0: route(.post, "/v1/projects/p/messages:send", body: bytes)
        case 1: _ = try? Condition.parse(bytes)
        case 2: _ = api.keys.decipher(bytes)
        case 3: _ = try? RecordCodec.decode(bytes)
        case 4: partition { try? $0.restore(snapshot: bytes) }
        case 5: try? Partition.check(bytes)
        case 6:
            route(
                .post, "/token",
                body: Array("grant_type=urn:ietf:params:oauth:grant-type:jwt-bearer&assertion=".utf8) + bytes)
        case 7: gossip(bytes)
        case 8:
            peer(bytes)
            LZ4.unpackWithLength(bytes, max: 1 << 20).map(peer)
        case 9: _ = Ownership.NodeInfo(decoding: bytes)
        case 10: FuzzedSession.run(bytes)
        case 11: FuzzedFrames.run(bytes)
        case 12: FuzzedPush.run(bytes)
        case 13: FuzzedUserAgent.run(bytes)
        case 14: gzip(bytes)
        default: FuzzedProxyHeader.run(bytes)
        }
    }

    /// A body that says that it is gzip: alone, with a bound that the first byte chooses, and over the API.
    private static func gzip(_ bytes: [UInt8]) {
        let bound = Int(bytes.first ?? 0) << 4
        let packed = Array(bytes.dropFirst())
        if let content = try? Gzip.unpack(packed, bytesMax: bound) {
            precondition(content.count <= bound, "more was unpacked than the bound allows")
        }
        route(.post, "/v1/projects/p/messages:send", body: packed, coding: "gzip")
        route(.post, "/iid/register", body: packed, coding: "gzip")
    }

    /// The payload of a frame. `run` gives it plain and unpacked.
    private static func peer(_ bytes: [UInt8]) {
        var reader = ByteReader(bytes)
        while !reader.isAtEnd, (try? PeerMessage.decode(from: &reader)) != nil {}
    }

    /// A packet with a valid seal: from a member of the cluster that sends anything.
    private static func gossip(_ bytes: [UInt8]) {
        let now = MonotonicTime(nanoseconds: 1)
        var machine = Membership(
            session: SessionID(1), name: "a", address: "a:1", info: [], seed: 1, now: now)
        var effects: [Membership.Effect] = []
        // A sender in the table needs no number in its datagrams. Every other input is from an unknown
        // sender.
        if bytes.count > 8, bytes.count % 2 == 0 {
            let sender = (1...8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64(bytes[$1]) }
            let row = Membership.Row(session: SessionID(sender), name: "b", address: "b:1", info: [])
            machine.handle(.table([row]), now: now, into: &effects)
        }
        machine.handle(.datagram(bytes, from: "b:1"), now: now, into: &effects)
        machine.handle(.datagram(bytes, from: "b:1"), now: now, into: &effects)
        machine.handle(.stream(bytes), now: now, into: &effects)
        machine.handle(.woke, now: now.advanced(by: .seconds(9)), into: &effects)
    }

    private static func route(
        _ method: HTTPMethod, _ path: String, body: [UInt8], coding: String? = nil
    ) {
        var fields = HTTPFields()
        if let coding { fields.append(name: "content-encoding".utf8, value: coding.utf8) }
        fields.append(name: "authorization".utf8, value: "Bearer owner".utf8)
        let request = HTTPRequest(method: method, target: Array(path.utf8), fields: fields, body: body)
        let action = api.route(
            request, isAdmin: false, now: WallTime(milliseconds: 1), at: .zero,
            id: MessageID(time: 1, random: 1)
        ).action
        if case .operation(.send(let send), _) = action { FuzzedPush.compose(send.message.event) }
    }

    private final class Proofs: DeviceMACMaker {
        func tokenProof(secret: UInt64, key: UInt8) -> DeviceMAC? { nil }
        func credentialProof(secret: UInt64, key: UInt8) -> DeviceMAC? { nil }
    }

    private static func partition(_ body: (Partition) -> Void) {
        let partition = Partition(
            id: PartitionID(0), history: History(1), options: PartitionOptions(partitionCount: 4),
            names: TopicNames(),
            proofs: Proofs())
        body(partition)
    }
}
