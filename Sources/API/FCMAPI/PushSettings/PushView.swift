import Credentials
import HTTPMessages
import Model
import PushMessages

extension PushSettingsRequest {
    /// The audit log's words; `nil` if the request changes nothing.
    var change: (action: String, subject: String)? {
        switch self {
        case .show: return nil
        case .switchOff(let project, let kind):
            return ("project.push", "\(project.id) \(kind?.word ?? "web, apns and fcm") off")
        case .serve(let project, let origin):
            return ("project.push", "\(project.id) serve on\(origin.map { ", origin \($0)" } ?? "")")
        case .endService(let project): return ("project.push", "\(project.id) serve off")
        case .removeKey(let project, let isSandbox, let bundleID):
            let environment = PushView.environment(isSandbox)
            return ("project.push", "\(project.id) apns, no key for \(bundleID) in \(environment)")
        case .setAPNs(let project, let key):
            guard let key else { return ("project.push", "\(project.id) apns on") }
            var text = "\(project.id) apns on, \(key.bundleID) in \(PushView.environment(key.isSandbox))"
            text += ", key \(key.keyID) of team \(key.teamID)"
            if !key.host.isEmpty { text += ", host \(key.host)" }
            if key.authority != nil { text += ", own authorities" }
            return ("project.push", text)
        case .setRelay(let project, let wanted):
            var words = ["\(project.id) fcm on"]
            if let account = wanted.account { words.append("account \(account.clientEmail)") }
            if let endpoint = wanted.endpoint {
                words.append(endpoint.isEmpty ? "Google's endpoint" : "endpoint \(endpoint)")
            }
            if let authority = wanted.authority {
                words.append(authority.isEmpty ? "the system's authorities" : "own authorities")
            }
            return ("project.push", words.joined(separator: ", "))
        case .setWeb(let project, let wanted):
            var words = ["\(project.id) web on"]
            if let subject = wanted.subject { words.append("subject \(subject)") }
            if let hosts = wanted.hosts {
                words.append(hosts.isEmpty ? "no hosts" : "hosts \(hosts.joined(separator: " "))")
            }
            if let authority = wanted.authority {
                words.append(authority.isEmpty ? "the system's authorities" : "own authorities")
            }
            if wanted.wantsNewKey { words.append("a new key") }
            return ("project.push", words.joined(separator: ", "))
        }
    }
}

/// Answers about a project's push services. None has a private key.
public enum PushView {
    /// The answer to `…/push/web`: the key with which pages subscribe from now on.
    public static func key(_ push: WebPushProject) -> HTTPResponse {
        APIAnswer.object([("publicKey", .text(push.newest.text))])
    }

    static func environment(_ isSandbox: Bool) -> String { isSandbox ? "sandbox" : "production" }

    private static func state(_ isOn: Bool?) -> (name: String, value: APIAnswer.Value) {
        ("state", .text(isOn.map { $0 ? "on" : "off" } ?? "none"))
    }

    /// The three services of a project, and the project as a service.
    public static func status(
        of project: Project, web push: WebPushProject?, apns: APNsSettings?, relay: RelaySettings?,
        service: PushServiceProject?
    ) -> HTTPResponse {
        APIAnswer.object([
            ("project", .text(project.id)), ("web", .object(web(push))), ("apns", .object(fields(apns))),
            ("fcm", .object(fields(relay))), ("serve", .object(fields(service, of: project))),
        ])
    }

    /// The answer to `…/push/serve`.
    public static func service(_ service: PushServiceProject, of project: Project) -> HTTPResponse {
        APIAnswer.object(fields(service, of: project))
    }

    private static func fields(
        _ service: PushServiceProject?, of project: Project
    ) -> [(name: String, value: APIAnswer.Value)] {
        guard let service else { return [state(nil)] }
        // `https` becomes `wss`, and `http` `ws`.
        let socket = "ws\(service.origin.dropFirst(4))/push/\(project.id)"
        return [
            state(service.isOn), ("origin", .text(service.origin)), ("userAgents", .text(socket)),
        ]
    }

    private static func web(_ push: WebPushProject?) -> [(name: String, value: APIAnswer.Value)] {
        var web = [state(push?.isOn)]
        if let push {
            web += [
                ("publicKey", .text(push.newest.text)), ("subject", .text(push.subject)),
                ("allowHosts", .list(push.hosts.map { .text($0) })),
                ("authorities", .text(push.hasAuthority ? "own" : "system")),
                (
                    "keys",
                    .list(
                        push.keys.map {
                            .object([
                                ("publicKey", .text($0.text)),
                                ("createTime", .text(Timestamp.text($0.created.milliseconds))),
                            ])
                        })
                ),
            ]
        }
        return web
    }

    /// The answer to `…/push/apns`.
    public static func apns(_ settings: APNsSettings) -> HTTPResponse { APIAnswer.object(fields(settings)) }

    private static func fields(_ settings: APNsSettings?) -> [(name: String, value: APIAnswer.Value)] {
        let keys = settings?.keys.map { key in
            APIAnswer.Value.object([
                ("bundleId", .text(key.bundleID)), ("environment", .text(environment(key.isSandbox))),
                ("keyId", .text(key.keyID)), ("teamId", .text(key.teamID)),
                ("host", .text(APNsHost.text(of: key))),
                ("authorities", .text(key.authority == nil ? "system" : "own")),
                ("createTime", .text(Timestamp.text(key.created.milliseconds))),
            ])
        }
        return [state(settings?.isOn)] + (keys.map { [("keys", .list($0))] } ?? [])
    }

    /// The answer to `…/push/fcm`.
    public static func relay(_ settings: RelaySettings) -> HTTPResponse { APIAnswer.object(fields(settings)) }

    private static func fields(_ settings: RelaySettings?) -> [(name: String, value: APIAnswer.Value)] {
        guard let settings else { return [state(nil)] }
        return [
            state(settings.isOn), ("projectId", .text(settings.account.projectID)),
            ("clientEmail", .text(settings.account.clientEmail)), ("keyId", .text(settings.account.keyID)),
            ("endpoint", .text(settings.base)), ("tokenUri", .text(settings.tokenURI)),
            ("authorities", .text(settings.authority == nil ? "system" : "own")),
            ("createTime", .text(Timestamp.text(settings.created.milliseconds))),
        ]
    }
}

extension APNsHost {
    /// The host to which a key's messages go.
    static func text(of key: APNsSettings.Key) -> String {
        APNsHost.of(key)?.text ?? key.host
    }

    /// `nil` if the settings name none that this build can read.
    public static func of(_ key: APNsSettings.Key) -> APNsHost? {
        if key.host.isEmpty { return key.isSandbox ? sandbox : production }
        return APNsHost(key.host)
    }
}
