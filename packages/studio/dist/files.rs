// Written by `npm run build` in packages/studio.
[
    ("index-CoE1yoTk.css", include_bytes!("index-CoE1yoTk.css").as_slice()),
    ("logo-KQFvU7Ez.svg", include_bytes!("logo-KQFvU7Ez.svg").as_slice()),
    ("studio-qf4A2AVx.js", include_bytes!("studio-qf4A2AVx.js").as_slice()),
]
