import Model
import Partitions
import PushDesk
import PushMessages
import PushScheduling

// Where simulated pushes go. A service reads the project's setting in what comes to it: in the path at FCM,
// in the id of Apple's key, in the subject of Web Push.

extension PushRoutes {
    private static let key = try? P256Key(privateBytes: [UInt8](repeating: 7, count: 32))

    /// - Parameter former: the project's routes until now. A setting of FCM's that stays keeps its route.
    init(simulating services: PushServices, of project: ProjectNumber, after former: PushRoutes?) {
        self.init()
        guard let key = PushRoutes.key else { return }
        if services.web {
            isWebOn = true
            let setting = services.settings[.web] ?? 0
            web[0] = WebPushRoute(
                vapid: VAPID(key: key, subject: "\(setting)"), policy: EndpointPolicy(listed: ["*"]))
        }
        for app in services.apps {
            guard let name = APNsApp(packed: app) else { continue }
            // Projects with odd numbers have one team, the others another.
            let signer = APNsSigner(
                key: key, keyID: "KEY\(services.settings[.apns] ?? 0)",
                teamID: "TEAM00000\(project.rawValue % 2)")
            let pool = APNsPool(
                host: name.isSandbox ? "sandbox.example" : "apple.example", teamID: signer.teamID,
                keyID: signer.keyID)
            apns[name] = APNsRoute(pool: pool, signer: signer)
        }
        guard services.fcm else { return }
        let setting = services.settings[.fcm] ?? 0
        if let former = former?.fcm, former.setting == setting {
            fcm = former
            return
        }
        guard let messages = try? PushEndpoint.parse(operators: "https://fcm.example/\(setting)"),
            let tokens = try? PushEndpoint.parse(operators: "https://tokens.example/\(setting)")
        else { return }
        fcm = FCMRoute(messages: messages, tokens: tokens, grant: { _ in [] })
    }
}

extension APNsApp {
    fileprivate init?(packed app: [UInt8]) {
        let known = [false, true].map { APNsApp(isSandbox: $0, bundleID: PushAddress.bundleID) }
        let found = known.first {
            APNsAddress.app(isSandbox: $0.isSandbox, bundleID: $0.bundleID) == app
        }
        guard let found else { return nil }
        self = found
    }
}

extension FCMRoute {
    var setting: UInt64 { UInt64(messages.path.dropFirst()) ?? 0 }
}

extension PushDesk.Way {
    var setting: UInt64 {
        switch self {
        case .web(let route, _): UInt64(route.vapid.subject) ?? 0
        case .fcm(let route, _): route.setting
        case .apns(let route, _): UInt64(route.pool.keyID.dropFirst(3)) ?? 0
        }
    }
}

extension ClusterSimulation {
    /// `nil` if no device has told the address.
    func target(of job: PushJob) -> PushDesk<PushRequest>.Target? {
        switch job.transport.kind {
        case .web:
            return WebAddress(packed: job.transport.address).map {
                .web(keyID: $0.keyID, endpoint: $0.endpoint)
            }
        case .apns:
            guard let address = APNsAddress(packed: job.transport.address) else { return nil }
            let id = APNsMessage.id(
                message: "\(number(ofBody: job.event))", token: Array("\(job.device.rawValue)".utf8))
            return .apns(
                APNsApp(isSandbox: address.isSandbox, bundleID: address.bundleID),
                APNsPush(id: id, registered: job.registered))
        case .fcm: return .fcm
        }
    }
}
