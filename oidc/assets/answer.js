// Sends the form of the page.
"use strict";
document.querySelector("main form").submit();
