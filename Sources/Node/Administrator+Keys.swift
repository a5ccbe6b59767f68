import Catalog
import Credentials
import FCMAPI
import HTTPMessages
import Model
import RegistrationIDs

// The server's own keys. `SigningKeys` and `RegistrationKeyRules` decide which changes are allowed.

extension Administrator {
    func serverKeys(
        _ wanted: ServerKeyRequest, on loop: NodeLoop, for work: Work?, _ finish: @escaping Finish
    ) {
        let now = Clock.now().wall
        switch wanted {
        case .list: finish(loop, .success(Administrator.show(current, now: now)))
        case .rotateSigning(let atOnce):
            change(
                on: loop, for: work,
                { draft in
                    let material = try Catalog.random(SigningKeys.materialBytes)
                    try draft.contents.signingKeys.rotate(material, atOnce: atOnce, now: now)
                    try Catalog.put(
                        draft.contents.signingKeys, draft.contents.vault, to: &draft.writes)
                    return Administrator.show(draft.contents, now: now)
                }, finish)
        case .rotateRegistration:
            change(
                on: loop, for: work,
                { draft in
                    let key = try RegistrationKeyRules.next(
                        to: draft.contents.registrationKeys,
                        try Catalog.random(RegistrationKey.materialBytes), now: now)
                    try Catalog.put(key, draft.contents.vault, to: &draft.writes)
                    draft.contents.registrationKeys.append(key)
                    return Administrator.show(draft.contents, now: now)
                }, finish)
        case .retireRegistration(let number):
            change(
                on: loop, for: work,
                { draft in
                    let key = try RegistrationKeyRules.retired(
                        number, of: draft.contents.registrationKeys, now: now)
                    try Catalog.put(key, draft.contents.vault, to: &draft.writes)
                    draft.contents.registrationKeys.removeAll { $0.number == number }
                    draft.contents.registrationKeys.append(key)
                    return Administrator.show(draft.contents, now: now)
                }, finish)
        }
    }

    private static func show(_ contents: Catalog.Contents, now: WallTime) -> HTTPResponse {
        ServerKeyView.answer(contents.signingKeys, contents.registrationKeys, now: now)
    }
}
