import Bytes
import Credentials
import Model
import PushDesk
import PushMessages
import PushScheduling

/// The routes of all projects to push services, made from the operators' settings.
///
/// An update makes only the routes whose settings have changed: a key costs a multiplication on the curve,
/// and another route to FCM begins without access tokens.
struct PushRouteBook: Sendable {
    private struct Settings: Hashable {
        var web: WebPushSettings?
        var apns: APNsSettings?
        var relay: RelaySettings?
        var isEmpty: Bool { web == nil && apns == nil && relay == nil }
    }
    private struct Entry {
        var settings: Settings
        var routes: PushRoutes
    }
    private var entries: [ProjectNumber: Entry] = [:]

    /// Returns the routes of the projects whose settings have changed.
    @discardableResult
    mutating func update(
        web: [ProjectNumber: WebPushSettings] = [:], apns: [ProjectNumber: APNsSettings] = [:],
        relays: [ProjectNumber: RelaySettings] = [:]
    ) -> [ProjectNumber: PushRoutes] {
        var changed: [ProjectNumber: PushRoutes] = [:]
        for project in Set(entries.keys).union(web.keys).union(apns.keys).union(relays.keys) {
            let next = Settings(web: web[project], apns: apns[project], relay: relays[project])
            let former = entries[project]
            guard next != former?.settings else { continue }
            let routes = PushRouteBook.routes(next, after: former)
            changed[project] = routes
            entries[project] = next.isEmpty ? nil : Entry(settings: next, routes: routes)
        }
        return changed
    }

    /// The routes of all projects with settings.
    var routes: [ProjectNumber: PushRoutes] { entries.mapValues(\.routes) }

    /// The push services of all projects with settings.
    var services: [ProjectNumber: PushServices] {
        Dictionary(uniqueKeysWithValues: entries.keys.map { ($0, services(of: $0)) })
    }

    func services(of project: ProjectNumber) -> PushServices {
        var services = PushServices()
        guard let (settings, routes) = entries[project].map({ ($0.settings, $0.routes) }) else {
            return services
        }
        services.web = !routes.web.isEmpty
        services.apps = Set(
            routes.apns.keys.map { APNsAddress.app(isSandbox: $0.isSandbox, bundleID: $0.bundleID) })
        services.fcm = routes.fcm != nil
        services.settings[.web] = settings.web.map { Checksum.of($0.encoded) }
        services.settings[.apns] = settings.apns.map { Checksum.of($0.encoded) }
        services.settings[.fcm] = settings.relay.map { Checksum.of($0.encoded) }
        return services
    }

    private static func routes(_ next: Settings, after former: Entry?) -> PushRoutes {
        var routes = former?.routes ?? PushRoutes()
        if next.web != former?.settings.web {
            routes.isWebOn = next.web?.isOn ?? false
            routes.web = next.web.map(web) ?? [:]
        }
        if next.apns != former?.settings.apns { routes.apns = next.apns.map(apns) ?? [:] }
        if next.relay != former?.settings.relay {
            routes.fcm = next.relay.flatMap { $0.isOn ? fcm($0) : nil }
        }
        return routes
    }

    private static func web(_ settings: WebPushSettings) -> [UInt64: WebPushRoute] {
        let policy = EndpointPolicy(listed: settings.hosts)
        var routes: [UInt64: WebPushRoute] = [:]
        for key in settings.isOn ? settings.keys : [] {
            // A damaged key cannot sign, and the project's other keys can.
            guard let pair = try? P256Key(privateBytes: key.privateBytes), pair.publicBytes == key.publicBytes
            else { continue }
            routes[WebPushProject.keyID(key.publicBytes)] = WebPushRoute(
                vapid: VAPID(key: pair, subject: settings.subject), policy: policy,
                authority: settings.authority.map { String(decoding: $0, as: UTF8.self) })
        }
        return routes
    }

    private static func apns(_ settings: APNsSettings) -> [APNsApp: APNsRoute] {
        var routes: [APNsApp: APNsRoute] = [:]
        for key in settings.isOn ? settings.keys : [] {
            // A damaged key or host cannot send, and the project's other keys can.
            guard let host = APNsHost.of(key), let pair = try? P256Key(privateBytes: key.privateBytes) else {
                continue
            }
            let pool = APNsPool(
                host: host.host, port: host.port,
                caPEM: key.authority.map { String(decoding: $0, as: UTF8.self) }, teamID: key.teamID,
                keyID: key.keyID, keyDigest: PushDigest.short(key.privateBytes, count: 43))
            routes[APNsApp(isSandbox: key.isSandbox, bundleID: key.bundleID)] = APNsRoute(
                pool: pool, signer: APNsSigner(key: pair, keyID: key.keyID, teamID: key.teamID))
        }
        return routes
    }

    /// `nil` if the settings are damaged.
    private static func fcm(_ settings: RelaySettings) -> FCMRoute? {
        let path = "/v1/projects/\(settings.account.projectID)/messages:send"
        guard let key = try? RSAKey(pem: settings.account.privateKey),
            let messages = try? PushEndpoint.parse(operators: settings.base + path),
            let tokens = try? PushEndpoint.parse(operators: settings.tokenURI)
        else { return nil }
        let account = RelayAccount(
            key: key, keyID: settings.account.keyID, email: settings.account.clientEmail,
            tokenURI: settings.tokenURI)
        return FCMRoute(
            messages: messages, tokens: tokens, isTrusted: !settings.endpoint.isEmpty,
            authority: settings.authority.map { String(decoding: $0, as: UTF8.self) },
            grant: { try account.request(now: $0) })
    }
}
