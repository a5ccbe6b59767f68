import Credentials
import Model
import Partitions
import PushClient
import PushDesk
import PushMessages
import Synchronization
import Testing

@testable import Node

@Suite("The request for a browser's push service") struct WebPushesTests {
    private let project = ProjectNumber(5)
    private static let event =
        #"{"messageId":"00000000000000010000000000000002","from":"/topics/a","sentTime":1}"#
    private static let vendor = "https://fcm.googleapis.com/fcm/send/abc"
    private static let listed = "https://push.example.com:8443/abc"

    private struct World {
        var routes: [ProjectNumber: PushRoutes]
        var keyID: UInt64
        var device: P256Key
    }

    private func world(_ change: (inout WebPushSettings) -> Void = { _ in }) throws -> World {
        let pair = try P256Key.generate()
        var settings = WebPushSettings(
            subject: "mailto:push@example.com",
            key: WebPushSettings.Key(
                privateBytes: pair.privateBytes, publicBytes: pair.publicBytes,
                created: WallTime(milliseconds: 1)))
        settings.hosts = ["push.example.com:8443"]
        change(&settings)
        var book = PushRouteBook()
        return World(
            routes: book.update(web: [project: settings]), keyID: WebPushProject.keyID(pair.publicBytes),
            device: try P256Key.generate())
    }

    private func request(
        _ world: World, to endpoint: String = WebPushesTests.vendor, keyID: UInt64? = nil,
        endsAfter milliseconds: Int64 = 60_000, since age: TimeSpan = .zero,
        isOwner: @escaping @Sendable () -> Bool = { true }
    ) throws -> PushHTTPRequest {
        let address = WebAddress(
            keyID: keyID ?? world.keyID, p256dh: world.device.publicBytes,
            auth: [UInt8](repeating: 7, count: WebAddress.authBytes), endpoint: endpoint)
        let wall = WallTime(milliseconds: 1_800_000_000_000)
        let job = PushJob(
            number: 1, project: project, device: DeviceIndex(1),
            transport: Transport(kind: .web, address: address.packed),
            registered: WallTime(milliseconds: 1), generation: 1, event: Array(WebPushesTests.event.utf8),
            expires: WallTime(milliseconds: wall.milliseconds + milliseconds), tries: 0)
        let now = Instant(monotonic: Clock.monotonic().rewound(by: age), wall: wall)
        var pushes = LoopPushes()
        let (target, content) = try pushes.compose(
            job, left: try PushTimeLeft(job, now: now), isOwner: isOwner)
        var desk = PushDesk<PushContent>()
        var effects: [PushDesk<PushContent>.Effect] = []
        desk.change(world.routes, into: &effects)
        let ticket = PushTicket(loop: 0, number: 9, kind: .web, project: project)
        desk.want(ticket, to: target, content, now: now.monotonic, into: &effects)
        switch effects.last {
        case .send(let number, _, .web(let route, let endpoint), let content):
            let request = content.request(number, of: project, by: route, to: endpoint, token: "vapid")
            return try #require(request)
        case .end(_, let end): throw PushRefusal(end.outcome)
        default: throw PushRefusal(.unsent("the desk does nothing"))
        }
    }

    @Test("goes to public addresses only, unless the operator has listed the very name")
    func addresses() throws {
        let world = try world()
        let inside: [[UInt8]] = [
            [127, 0, 0, 1], [10, 0, 0, 1], [192, 168, 1, 1], [169, 254, 169, 254],
            [UInt8](repeating: 0, count: 15) + [1],
        ]
        let vendor = try request(world)
        #expect(vendor.url == WebPushesTests.vendor && vendor.share == 5)
        #expect(vendor.mayDial([142, 250, 1, 1]))
        for address in inside { #expect(!vendor.mayDial(address)) }
        let listed = try request(world, to: WebPushesTests.listed)
        for address in inside { #expect(listed.mayDial(address)) }
    }

    @Test("does not leave where another node may own the partition, at either of the two times it is asked")
    func ownership() throws {
        let isOwner = Mutex(true)
        let made = try request(try world(), isOwner: { isOwner.withLock { $0 } })
        #expect(throws: Never.self) { try made.mayLeave() }
        let (fields, body) = try made.prepare()
        #expect(fields.contains { $0 == ("ttl", "59") || $0 == ("ttl", "60") } && !body.isEmpty)
        isOwner.withLock { $0 = false }
        #expect(throws: LostOwnership.self) { try made.mayLeave() }
        #expect(throws: LostOwnership.self) { _ = try made.prepare() }
    }

    @Test("has a fresh key and salt each time that it is prepared")
    func fresh() throws {
        let made = try request(try world())
        var seen: Set<[UInt8]> = []
        for _ in 0..<100 {
            let body = try made.prepare().body
            #expect(seen.insert(Array(body[..<16])).inserted)
            #expect(seen.insert(Array(body[21..<86])).inserted)
        }
    }

    @Test("does not leave after the message's end")
    func time() throws {
        let late = try request(try world(), endsAfter: 60_000, since: .seconds(61))
        for error in [
            #expect(throws: (any Error).self) { try late.mayLeave() },
            #expect(throws: (any Error).self) { _ = try late.prepare() },
        ] {
            #expect(error.map { PushDispatch.withheld($0) } == .expired)
        }
        let over = #expect(throws: PushRefusal.self) { try request(try world(), endsAfter: 0) }
        #expect(over?.outcome == .expired)
    }

    @Test("is none where the operator has switched the service off or lists it no more, without an alarm")
    func unset() throws {
        let worlds = [
            (try world { $0.isOn = false }, WebPushesTests.vendor),
            (try world { $0.hosts = [] }, WebPushesTests.listed),
        ]
        for (world, endpoint) in worlds {
            let refused = #expect(throws: PushRefusal.self) { try request(world, to: endpoint) }
            guard case .unset? = refused?.outcome else {
                Issue.record("\(String(describing: refused))")
                continue
            }
            #expect(refused?.outcome.word == "credentials" && refused?.outcome.alarm == nil)
        }
        let lost = #expect(throws: PushRefusal.self) { try request(try world(), keyID: 1) }
        #expect(lost?.outcome.alarm == .credentials)
    }
}
