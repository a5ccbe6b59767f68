import Catalog
import Credentials
import FCMAPI
import HTTPMessages
import Model
import PushMessages

// Push services of projects.

extension Administrator {
    func push(_ wanted: PushSettingsRequest, on loop: NodeLoop, for work: Work?, _ finish: @escaping Finish) {
        let now = Clock.now().wall
        func change(_ body: @escaping @Sendable (inout CatalogDraft) throws -> HTTPResponse) {
            self.change(on: loop, for: work, body, finish)
        }
        switch wanted {
        case .show(let project): show(project, on: loop, finish)
        case .setWeb(let project, let wanted):
            change {
                let key = try Administrator.newKey(now)
                return PushView.key(WebPushProject(try $0.setWebPush(wanted, of: project, newKey: key)))
            }
        case .setAPNs(let project, let key):
            change { PushView.apns(try $0.setAPNs(key, of: project)) }
        case .removeKey(let project, let isSandbox, let bundleID):
            change { PushView.apns(try $0.removeAPNsKey(of: bundleID, isSandbox: isSandbox, in: project)) }
        case .setRelay(let project, let wanted):
            change { PushView.relay(try $0.setRelay(wanted, of: project, now: now)) }
        case .serve(let project, let origin):
            change {
                PushView.service(PushServiceProject(try $0.serve(project, origin: origin)), of: project)
            }
        case .endService(let project):
            change { PushView.service(PushServiceProject(try $0.endService(of: project)), of: project) }
        case .switchOff(let project, let kind):
            change {
                try $0.endPush(kind, of: project)
                return Administrator.status(of: project, $0.contents)
            }
        }
    }

    /// Reads the engine, so that a command sees the change that another node has made a moment ago.
    private func show(_ project: Project, on loop: NodeLoop, _ finish: @escaping Finish) {
        let mailbox = loop.mailboxes[loop.number]
        engine.perform({ engine in
            Administrator.status(of: project, try Catalog.load(engine, self.vault))
        }) { result in mailbox.run { finish($0, result) } }
    }

    private static func status(of project: Project, _ contents: Catalog.Contents) -> HTTPResponse {
        PushView.status(
            of: project, web: contents.directory.webPush[project.number],
            apns: contents.apns[project.number], relay: contents.relays[project.number],
            service: contents.directory.pushServices[project.number])
    }

    private static func newKey(_ now: WallTime) throws -> WebPushSettings.Key {
        let pair = try P256Key.generate()
        return WebPushSettings.Key(
            privateBytes: pair.privateBytes, publicBytes: pair.publicBytes, created: now)
    }
}
