<?php
// PHP's curl, with the claims of google-auth-library-php (OAuth2::toJwt) and the requests of kreait/firebase-php. Run by
// libraries_other.py.
foreach (['curl', 'openssl'] as $module) {
    if (!extension_loaded($module)) {
        echo "the module $module is missing\n";
        exit(77);
    }
}
$account = json_decode(file_get_contents(getenv('SERVICE_ACCOUNT')), true);
$project = getenv('PROJECT');

function encoded(string $text): string
{
    return rtrim(strtr(base64_encode($text), '+/', '-_'), '=');
}

function post(string $url, string $body, array $fields): array
{
    $curl = curl_init($url);
    curl_setopt_array($curl, [
        CURLOPT_POST => true, CURLOPT_POSTFIELDS => $body, CURLOPT_HTTPHEADER => $fields,
        CURLOPT_RETURNTRANSFER => true, CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_2TLS,
    ]);
    $answer = curl_exec($curl);
    if ($answer === false) {
        fwrite(STDERR, curl_error($curl) . "\n");
        exit(1);
    }
    return ['status' => curl_getinfo($curl, CURLINFO_RESPONSE_CODE), 'body' => $answer];
}

function tell(string $call, array $answer): void
{
    echo json_encode(['call' => $call] + $answer), "\n";
}

// The library takes a minute off the clock, and has the URL as a constant.
$uri = 'https://oauth2.googleapis.com/token';
$claims = [
    'iss' => $account['client_email'], 'aud' => $uri, 'iat' => time() - 60, 'exp' => time() + 3600,
    'scope' => 'https://www.googleapis.com/auth/iam https://www.googleapis.com/auth/cloud-platform '
        . 'https://www.googleapis.com/auth/firebase.messaging',
];
$head = ['typ' => 'JWT', 'alg' => 'RS256', 'kid' => $account['private_key_id']];
$signed = encoded(json_encode($head)) . '.' . encoded(json_encode($claims));
openssl_sign($signed, $signature, $account['private_key'], OPENSSL_ALGO_SHA256);
$form = http_build_query([
    'grant_type' => 'urn:ietf:params:oauth:grant-type:jwt-bearer', 'assertion' => $signed . '.' . encoded($signature),
]);
$answer = post($uri, $form, ['Cache-Control: no-store', 'Content-Type: application/x-www-form-urlencoded']);
tell('token', ['status' => $answer['status'], 'body' => '']);
$bearer = json_decode($answer['body'], true)['access_token'] ?? '';

function send(string $call, array $message, string $path): void
{
    global $bearer;
    $fields = ["Authorization: Bearer $bearer", 'Content-Type: application/json; charset=UTF-8'];
    tell($call, post("https://fcm.googleapis.com/v1/projects/$path", json_encode(['message' => $message]), $fields));
}

$path = "$project/messages:send";
send('send', ['token' => getenv('TOKEN'), 'data' => ['n' => 'php1']], $path);
send('topic', ['topic' => getenv('TOPIC'), 'notification' => ['title' => 'php2', 'body' => 'b']], $path);
send('gone', ['token' => getenv('GONE')], $path);
send('bad', ['token' => 'fvJ2:APA91bnonsense'], $path);
send('foreign', ['token' => getenv('FOREIGN_TOKEN')], $path);
send('other', ['token' => getenv('TOKEN')], 'other/messages:send');
send('path', ['token' => getenv('TOKEN')], "$project/messages:sendAll");
