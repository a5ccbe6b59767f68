import Catalog
import FCMAPI
import HTTPMessages
import Model

// The server's own keys. `SigningKeys` and `RegistrationKeyRules` decide which changes are allowed.

extension Administrator {
    func serverKeys(
        _ wanted: ServerKeyRequest, on loop: NodeLoop, for work: Work?, _ finish: @escaping Finish
    ) {
        let now = Clock.now().wall
        func change(_ body: @escaping @Sendable (inout CatalogDraft) throws -> Void) {
            self.change(
                on: loop, for: work,
                { draft in
                    try body(&draft)
                    return Administrator.show(draft.contents, now: now)
                }, finish)
        }
        switch wanted {
        case .list: finish(loop, .success(Administrator.show(current, now: now)))
        case .rotateSigning(let atOnce):
            change { try $0.rotateSigningKey(atOnce: atOnce, now: now) }
        case .rotateRegistration: change { try $0.rotateRegistrationKey(now: now) }
        case .retireRegistration(let number):
            change { try $0.retireRegistrationKey(number, now: now) }
        }
    }

    private static func show(_ contents: Catalog.Contents, now: WallTime) -> HTTPResponse {
        ServerKeyView.answer(contents.signingKeys, contents.registrationKeys, now: now)
    }
}
